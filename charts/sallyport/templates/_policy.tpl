{{/*
Conditions that select the users a policy applies to: everyone except the controller and exempt users. JSON lists of
strings are valid CEL.
*/}}
{{- define "sallyport.tenants" -}}
- name: user-is-not-exempt
  expression: >-
    !(request.userInfo.username in {{ append (.Values.admissionPolicies.exempt.users | default list) (include "sallyport.user" .) | toJson }})
- name: group-is-not-exempt
  expression: >-
    !request.userInfo.?groups.orValue([]).exists(g, g in {{ .Values.admissionPolicies.exempt.groups | default list | toJson }})
- name: may-not-override # checked cluster-wide: full permissions in a namespace are not enough
  expression: >-
    !authorizer.group("kube-dc.com").resource("protections").check("override").allowed()
{{- end }}

{{/* Head of a policy, without matchConstraints and validations. Call it with (list $ NAME). */}}
{{- define "sallyport.policy" -}}
{{- $ := index . 0 -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "sallyport.labels" $ | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConditions:
    {{- include "sallyport.tenants" $ | nindent 4 }}
{{- end }}

{{/* Binding that enforces a policy. Call it with (list $ NAME). */}}
{{- define "sallyport.binding" -}}
{{- $ := index . 0 -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "sallyport.labels" $ | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
{{- end }}

{{/*
Regular expression for the annotations by which Kube-OVN 1.16 lets an object choose a network, an address, a gateway or
NAT: PROVIDER.kubernetes.io/NAME. The provider is "ovn", or NAME.NAMESPACE.ovn for an attachment, optionally followed by
an interface. All annotations of these providers belong to Kube-OVN. Other attachments have the provider NAME.NAMESPACE;
for those, only the names in Kube-OVN's pkg/util/const.go match, optionally followed by an interface.
*/}}
{{- define "sallyport.engineKeys" -}}
(^|\\.)ovn\\.([^/]+\\.)?kubernetes\\.io/|\\.kubernetes\\.io/(allocated|routed|routes|mac_address|ip_address|cidr|gateway|ip_pool|logical_switch|logical_router|vlan_id|provider_network|ingress_rate|egress_rate|security_groups|port_security|port_vips|layer2_forward|default_route|vf|vf_representor|activation_strategy|dhcp-v4-options|dhcp-v6-options|mirror|pod_nic_type|virtualmachine|vpc_cidrs|latency|limit|loss|jitter)(\\.[^/]*)?$
{{- end }}

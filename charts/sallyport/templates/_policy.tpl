{{/* Whom the policies are about: everybody but the controller and those who are exempt. JSON lists of strings are CEL as well. */}}
{{- define "sallyport.tenants" -}}
- name: user-is-not-exempt
  expression: >-
    !(request.userInfo.username in {{ append (.Values.admissionPolicies.exempt.users | default list) (include "sallyport.user" .) | toJson }})
- name: group-is-not-exempt
  expression: >-
    !request.userInfo.?groups.orValue([]).exists(g, g in {{ .Values.admissionPolicies.exempt.groups | default list | toJson }})
- name: may-not-override # asked of the whole cluster: every right in a namespace is not enough
  expression: >-
    !authorizer.group("kube-dc.com").resource("protections").check("override").allowed()
{{- end }}

{{/* The head of a policy; what it matches and validates follows. Call it with (list $ NAME). */}}
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

{{/* Puts a policy into force. Call it with (list $ NAME). */}}
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
Annotations by which Kube-OVN 1.16 lets an object choose a network, an address, a gateway or a translation: PROVIDER.kubernetes.io/NAME. The
provider is "ovn", or NAME.NAMESPACE.ovn of an attachment, to which an interface may be added; all of these are Kube-OVN's, whatever follows.
NAME.NAMESPACE is the provider of other attachments, whose names are those of pkg/util/const.go; an interface may follow them.
*/}}
{{- define "sallyport.engineKeys" -}}
(^|\\.)ovn\\.([^/]+\\.)?kubernetes\\.io/|\\.kubernetes\\.io/(allocated|routed|routes|mac_address|ip_address|cidr|gateway|ip_pool|logical_switch|logical_router|vlan_id|provider_network|ingress_rate|egress_rate|security_groups|port_security|port_vips|layer2_forward|default_route|vf|vf_representor|activation_strategy|dhcp-v4-options|dhcp-v6-options|mirror|pod_nic_type|virtualmachine|vpc_cidrs|latency|limit|loss|jitter)(\\.[^/]*)?$
{{- end }}

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

{{/* Names do not contain the release name: CRDs and policies are cluster-scoped, so a cluster has one Sallyport. */}}
{{- define "sallyport.name" -}}sallyport-controller{{- end }}

{{- define "sallyport.selector" -}}
app.kubernetes.io/name: sallyport
app.kubernetes.io/component: controller
{{- end }}

{{- define "sallyport.labels" -}}
app.kubernetes.io/name: sallyport
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sallyport.image" -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end }}
{{- end }}

{{/* Address of an OVN database: the configured one, or Kube-OVN's Service, with TLS if there are certificates. */}}
{{- define "sallyport.database" -}}
{{- if .address }}{{ .address }}{{ else }}{{ if .tls }}ssl{{ else }}tcp{{ end }}:{{ .service }}{{ end }}
{{- end }}

{{/*
"true" if agents are queried with TLS, otherwise empty. Fails if only one of the two Secrets is set, and if none is set
although OVN uses TLS.
*/}}
{{- define "sallyport.agentTLS" -}}
{{- $tls := .Values.agent.tls }}
{{- if and .Values.agent.enabled (ne (empty $tls.agentSecret) (empty $tls.controllerSecret)) }}
{{- fail "agent.tls: give both agentSecret and controllerSecret, or none" }}
{{- end }}
{{- if and .Values.agent.enabled $tls.agentSecret (eq $tls.agentSecret (.Values.ovn.tlsSecret | default "-")) }}
{{- fail "agent.tls.agentSecret: this is ovn.tlsSecret, which lets every node write to OVN's databases; make a Secret of its own (docs/reference/certificates.md)" }}
{{- end }}
{{- if and .Values.agent.enabled .Values.ovn.tlsSecret (not $tls.agentSecret) (not $tls.plaintext) }}
{{- fail "agent.tls: agents no longer use ovn.tlsSecret; give agentSecret and controllerSecret (docs/reference/certificates.md), or plaintext: true" }}
{{- end }}
{{- if and .Values.agent.enabled $tls.agentSecret }}true{{ end }}
{{- end }}

{{/* Flags of a program for health checks with TLS. */}}
{{- define "sallyport.healthFlags" -}}
- --egressip-healthcheck-cert=/etc/sallyport/health/tls.crt
- --egressip-healthcheck-key=/etc/sallyport/health/tls.key
- --egressip-healthcheck-ca=/etc/sallyport/health/ca.crt
{{- end }}

{{/* Volume with the certificates for health checks. */}}
{{- define "sallyport.healthVolume" -}}
- name: health-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - {key: ca.crt, path: ca.crt}
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
{{- end }}

{{- define "sallyport.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}
{{- end }}

{{/* Namespace of the agents: Pod Security can then restrict that of the controller. */}}
{{- define "sallyport.agentNamespace" -}}
{{ .Values.agent.namespace | default .Release.Namespace }}
{{- end }}

{{- define "kintsugi.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}-proxy
{{- end }}
{{- define "kintsugi.selector" -}}
app.kubernetes.io/name: kintsugi
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: proxy
{{- end }}
{{- define "kintsugi.labels" -}}
{{ include "kintsugi.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "kintsugi.meta" -}}
metadata:
  name: {{ include "kintsugi.name" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "kintsugi.labels" . | nindent 4 }}
{{- end }}
{{- /* What the chart says, under what proxy.config says. */}}
{{- define "kintsugi.config" -}}
apiVersion: kintsugi.dev/v1alpha1
kind: ProxyConfiguration
external_url: https://{{ .Values.externalHostname }}:{{ .Values.proxy.service.port }}
data_dir: /var/lib/kintsugi
listener:
  address: 0.0.0.0
  port: 8443
  cert_file: /etc/kintsugi/serving/tls.crt
  key_file: /etc/kintsugi/serving/tls.key
authentication:
  client_ca_file: /etc/kintsugi/client-ca/tls.crt
  workspaces: true
  on_failure: pass
topology:
  source: {{ .Values.topology.source }}
  root_kubeconfig: /etc/kintsugi/kubeconfig/{{ .Values.topology.rootKey }}
  shards_kubeconfig: /etc/kintsugi/kubeconfig/{{ .Values.topology.shardsKey }}
backend:
  ca_file: /etc/kintsugi/backend-ca/tls.crt
  cert_file: /etc/kintsugi/requestheader/tls.crt
  key_file: /etc/kintsugi/requestheader/tls.key
{{- if .Values.proxy.mappings }}
mapping_file: /etc/kintsugi/config/path-mapping.yaml
{{- end }}
shutdown:
  delay_ms: 5000
  grace_ms: 30000
{{- end }}

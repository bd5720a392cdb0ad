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
external_url: https://{{ .Values.externalHostname }}:{{ (include "kintsugi.proxy" . | fromYaml).service.port }}
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
{{- if (include "kintsugi.proxy" . | fromYaml).mappings }}
mapping_file: /etc/kintsugi/config/path-mapping.yaml
{{- end }}
{{- if .Values.etcd.endpoints }}
store:
  type: etcd
  endpoints:
    {{- toYaml .Values.etcd.endpoints | nindent 4 }}
  prefix: {{ .Values.etcd.prefix }}
{{- if .Values.etcd.secret }}
  ca_file: /etc/kintsugi/etcd/ca.crt
  cert_file: /etc/kintsugi/etcd/tls.crt
  key_file: /etc/kintsugi/etcd/tls.key
{{- end }}
{{- end }}
{{- if .Values.ui.enabled }}
ui:
  enabled: true
{{- end }}
{{- with .Values.tracing }}
{{- if .endpoint }}
tracing:
  endpoint: {{ .endpoint | quote }}
  sampling_per_million: {{ .samplingPerMillion }}
{{- end }}
{{- end }}
shutdown:
  delay_ms: 5000
  grace_ms: 30000
{{- end }}
{{- /* `proxy`, and what kcp's names for the same say. */}}
{{- define "kintsugi.proxy" -}}
{{- $proxy := deepCopy .Values.proxy }}
{{- $kcp := .Values.kcpFrontProxy }}
{{- range $theirs, $ours := dict "replicas" "replicas" "strategy" "strategy" "resources" "resources" "extraFlags" "extraArgs" "additionalPathMappings" "mappings" "podSecurityContext" "podSecurityContext" "securityContext" "containerSecurityContext" "containerSecurityContext" "containerSecurityContext" "certificateIssuer" "certificateIssuer" "extraDNSNames" "extraDNSNames" "extraVolumes" "extraVolumes" "extraVolumeMounts" "extraVolumeMounts" "nodeSelector" "nodeSelector" "tolerations" "tolerations" "affinity" "affinity" "topologySpreadConstraints" "topologySpreadConstraints" "priorityClassName" "priorityClassName" }}
{{- if hasKey $kcp $theirs }}
{{- $_ := set $proxy $ours (index $kcp $theirs) }}
{{- end }}
{{- end }}
{{- range $theirs, $ours := dict "image" "repository" "tag" "tag" "pullPolicy" "pullPolicy" }}
{{- if hasKey $kcp $theirs }}
{{- $_ := set $proxy.image $ours (index $kcp $theirs) }}
{{- end }}
{{- end }}
{{- if hasKey $kcp "v" }}
{{- $_ := set $proxy "verbosity" $kcp.v }}
{{- end }}
{{- range $part, $known := dict "service" (list "type" "port" "nodePort" "annotations" "loadBalancerClass") "ingress" (list "enabled" "className" "annotations") "gateway" (list "enabled" "parentRefs" "annotations") }}
{{- range $key, $value := (index $kcp $part | default dict) }}
{{- if has $key $known }}
{{- $_ := set (index $proxy $part) $key $value }}
{{- end }}
{{- end }}
{{- end }}
{{- with $kcp.podDisruptionBudget }}
{{- range $key := list "enabled" "minAvailable" }}
{{- if hasKey $kcp.podDisruptionBudget $key }}
{{- $_ := set $proxy.pdb $key (index $kcp.podDisruptionBudget $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- if dig "serviceMonitor" "enabled" false ($kcp.monitoring | default dict) }}
{{- $_ := set $proxy.monitoring "enabled" true }}
{{- end }}
{{- if kindIs "slice" $kcp.hostAliases }}
{{- $_ := set $proxy "hostAliases" $kcp.hostAliases }}
{{- else if dig "enabled" false ($kcp.hostAliases | default dict) }}
{{- $_ := set $proxy "hostAliases" $kcp.hostAliases.values }}
{{- end }}
{{- toYaml $proxy }}
{{- end }}

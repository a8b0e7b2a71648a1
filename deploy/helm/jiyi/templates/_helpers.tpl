{{- define "jiyi.name" -}}
{{- (contains "jiyi" .Release.Name | ternary .Release.Name (printf "%s-jiyi" .Release.Name)) | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "jiyi.labels" -}}
app.kubernetes.io/name: jiyi
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "jiyi.selector" -}}
app.kubernetes.io/name: jiyi
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "jiyi.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "jiyi.secret" -}}
{{ .Values.existingSecret | default (include "jiyi.name" .) }}
{{- end }}

{{- define "jiyi.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "jiyi.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The environment of every process: settings, the Secret, and the addresses of what is bundled. */}}
{{- define "jiyi.environment" -}}
env:
  {{- if .Values.postgres.bundled }}
  - name: JIYI_DATABASE_URL
    valueFrom: {secretKeyRef: {name: {{ include "jiyi.name" . }}-postgres-app, key: uri}}
  {{- end }}
  {{- if .Values.valkey.bundled }}
  - {name: JIYI_BROKER_URL, value: "redis://{{ include "jiyi.name" . }}-valkey:6379/0"}
  - {name: JIYI_REDIS_URL, value: "redis://{{ include "jiyi.name" . }}-valkey:6379/0"}
  {{- end }}
  - {name: JIYI_HOME, value: /tmp/jiyi}
  {{- if not (hasKey .Values.settings "JIYI_JOBS_OFF") }}
  - {name: JIYI_JOBS_OFF, value: "verify_backup"}
  {{- end }}
  {{- if eq (.process | default "") "web" }}
  {{- $hosts := concat (list "localhost" "$(POD_IP)" (printf "%s-web" (include "jiyi.name" .)) (printf "%s-web.%s" (include "jiyi.name" .) .Release.Namespace)) .Values.web.hosts }}
  {{- if .Values.ingress.enabled }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end }}
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}} # by which Prometheus asks
  - {name: JIYI_WEB_HOST, value: 0.0.0.0}
  - {name: JIYI_WEB_PORT, value: {{ .Values.web.port | quote }}}
  - {name: JIYI_WEB_HOSTS, value: {{ join "," $hosts | quote }}}
  - {name: JIYI_WEB_PROXIES, value: {{ .Values.web.proxies | quote }}}
  {{- end }}
  {{- if eq (.process | default "") "backup" }}
  - {name: JIYI_BACKUP_DIR, value: /backups}
  - {name: JIYI_BACKUP_KEEP, value: {{ .Values.backups.keep | quote }}}
  {{- end }}
  {{- range $name, $value := .Values.settings }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
envFrom:
  - secretRef: {name: {{ include "jiyi.secret" . }}}
{{- end }}

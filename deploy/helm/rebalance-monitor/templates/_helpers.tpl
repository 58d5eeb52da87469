{{- define "rebalance-monitor.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Truncated so that suffixes such as "-stream-membership" still fit. */}}
{{- define "rebalance-monitor.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rebalance-monitor.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rebalance-monitor.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rebalance-monitor.selectorLabels" -}}
app.kubernetes.io/name: {{ include "rebalance-monitor.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rebalance-monitor.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "rebalance-monitor.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Image of a repository: with its own digest, or else with the common tag. */}}
{{- define "rebalance-monitor.image" -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default .root.Chart.AppVersion .root.Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Fails for contradictory values with which pods would crash, fence each other, or run without a password. */}}
{{- define "rebalance-monitor.check" -}}
{{- $names := list -}}
{{- $queries := list -}}
{{- range .Values.stream.applications -}}
{{- if has .name $names -}}
{{- fail (printf "stream.applications: two have the name %q" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- range .queries -}}
{{- if has . $queries -}}
{{- fail (printf "stream.applications: the query %s stands in two of them, which would end each other again and again" .) -}}
{{- end -}}
{{- $queries = append $queries . -}}
{{- end -}}
{{- end -}}
{{- range $query := tuple "membership" "activity" "diagnosis" -}}
{{- if not (has $query $queries) -}}
{{- fail (printf "stream.applications: none of them has the query %s" $query) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.web.tls (not .Values.web.existingSecret) -}}
{{- fail "web.tls is for web.existingSecret, the Secret with web.yml: without it pages are plain HTTP" -}}
{{- end -}}
{{- if .Values.kafka.secretProperties -}}
{{- range $process := tuple "stream" "exporter" "prober" -}}
{{- $values := get $.Values $process -}}
{{- if and (or (ne $process "prober") $values.enabled) (not (include "rebalance-monitor.kafkaSecret" (dict "root" $ "values" $values))) -}}
{{- fail (printf "kafka.secretProperties: no Secret holds them for the %s: set kafka.existingSecret or %s.kafkaSecret" $process $process) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Environment of a process: section is the name of its section in the settings, values its part of the values. */}}
{{- define "rebalance-monitor.env" -}}
{{- $root := .root -}}
{{- $variable := printf "REBALANCE_MONITOR_%s" (upper .section) -}}
- name: REBALANCE_MONITOR_CONFIG
  value: /etc/rebalance-monitor/config/config.toml
- name: REBALANCE_MONITOR_CLUSTER
  value: {{ $root.Values.cluster | quote }}
- name: REBALANCE_MONITOR_KAFKA_BOOTSTRAP_SERVERS
  value: {{ required "kafka.bootstrapServers must name the brokers" $root.Values.kafka.bootstrapServers | quote }}
- name: REBALANCE_MONITOR_LOG_FORMAT
  value: {{ $root.Values.log.format }}
- name: REBALANCE_MONITOR_LOG_LEVEL
  value: {{ $root.Values.log.level }}
{{- with $root.Values.listenHost }}
- name: {{ $variable }}_LISTEN_HOST
  value: {{ . | quote }}
{{- end }}
- name: {{ $variable }}_LISTEN_PORT
  value: {{ get (dict "stream" "9644" "export" "9642" "probe" "9643") .section | quote }}
{{- if include "rebalance-monitor.kafkaSecret" . }}
{{- range $property, $key := $root.Values.kafka.secretProperties }}
- name: REBALANCE_MONITOR_KAFKA_{{ $property | upper | replace "." "_" }}_FILE
  value: /etc/rebalance-monitor/kafka/{{ $key }}
{{- end }}
{{- end }}
{{- if $root.Values.web.existingSecret }}
- name: {{ $variable }}_WEB_CONFIG_FILE
  value: /etc/rebalance-monitor/web/web.yml
- name: {{ $variable }}_HEALTH_WITHOUT_PASSWORD
  value: "true"
{{- end }}
{{- with .values.rebuild }}
- name: {{ $variable }}_REBUILD
  value: {{ . | quote }}
{{- end }}
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rebalance-monitor.kafkaSecret" -}}
{{- default .root.Values.kafka.existingSecret .values.kafkaSecret -}}
{{- end -}}

{{- define "rebalance-monitor.volumeMounts" -}}
- name: config
  mountPath: /etc/rebalance-monitor/config
  readOnly: true
{{- if include "rebalance-monitor.kafkaSecret" . }}
- name: kafka
  mountPath: /etc/rebalance-monitor/kafka
  readOnly: true
{{- end }}
{{- if .root.Values.web.existingSecret }}
- name: web
  mountPath: /etc/rebalance-monitor/web
  readOnly: true
{{- end }}
- name: tmp
  mountPath: /tmp
{{- with .values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rebalance-monitor.volumes" -}}
- name: config
  configMap:
    name: {{ include "rebalance-monitor.fullname" .root }}
{{- with include "rebalance-monitor.kafkaSecret" . }}
- name: kafka
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .root.Values.web.existingSecret }}
- name: web
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
- name: tmp
  emptyDir: {sizeLimit: {{ .values.tmpSizeLimit }}}
{{- with .values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rebalance-monitor.probes" -}}
{{- $http := dict "port" "http" "scheme" (ternary "HTTPS" "HTTP" .root.Values.web.tls) -}}
startupProbe:
  httpGet: {{ merge (dict "path" "/-/healthy") $http | toJson }}
  periodSeconds: 5
  failureThreshold: 36
livenessProbe:
  httpGet: {{ merge (dict "path" "/-/healthy") $http | toJson }}
  periodSeconds: 20
  timeoutSeconds: 10
readinessProbe:
  httpGet: {{ merge (dict "path" "/-/ready") $http | toJson }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* Template of a pod: component, command, port; checkpoint (stream only) is the name of its claim. */}}
{{- define "rebalance-monitor.pod" -}}
{{- $values := .values -}}
metadata:
  labels:
    {{- include "rebalance-monitor.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Without the owners in the same ConfigMap, because exporters reload them on a change.
    checksum/config: {{ .root.Values.config | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "rebalance-monitor.serviceAccountName" .root }}
  automountServiceAccountToken: false
  # Otherwise Kubernetes sets REBALANCE_MONITOR_… variables for services.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml .root.Values.podSecurityContext | nindent 4 }}
  containers:
    - name: {{ .component }}
      {{- $image := .root.Values.image }}
      image: {{ include "rebalance-monitor.image" (dict "root" .root "repository" $image.repository "digest" $image.digest) | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: {{ toJson .command }}
      env:
        {{- include "rebalance-monitor.env" . | nindent 8 }}
        {{- with .env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: http, containerPort: {{ .port }}}
      {{- include "rebalance-monitor.probes" . | nindent 6 }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      securityContext:
        {{- toYaml .root.Values.securityContext | nindent 8 }}
      volumeMounts:
        {{- include "rebalance-monitor.volumeMounts" . | nindent 8 }}
        {{- if .checkpoint }}
        - name: checkpoint
          mountPath: /var/lib/rebalance-monitor
        {{- end }}
  volumes:
    {{- include "rebalance-monitor.volumes" . | nindent 4 }}
    {{- with .checkpoint }}
    - name: checkpoint
      persistentVolumeClaim:
        claimName: {{ . }}
    {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with default .affinity $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Service of a component's pages. */}}
{{- define "rebalance-monitor.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "rebalance-monitor.fullname" .root }}-{{ .component }}
  labels:
    {{- include "rebalance-monitor.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ default "ClusterIP" .type }}
  ports:
    - {name: http, port: {{ .port }}, targetPort: http}
  selector:
    {{- include "rebalance-monitor.selectorLabels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
{{- end -}}

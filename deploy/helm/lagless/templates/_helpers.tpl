{{- define "lagless.labels" -}}
app.kubernetes.io/name: lagless
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: lagless
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Call with (dict "root" $ "component" "…"). */ -}}
{{- define "lagless.selector" -}}
app.kubernetes.io/name: lagless
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "lagless.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "lagless.sparkImage" -}}
{{ .Values.sparkImage.repository }}:{{ .Values.sparkImage.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* "yes" where the lake is a bucket: then there is no volume. */ -}}
{{- define "lagless.bucket" -}}
{{- if hasPrefix "s3://" (dig "lake" "path" "" .Values.settings) }}yes{{ end }}
{{- end }}

{{- /* "yes" where lagless leads a group whose members it does not start: no lake, no consumers. */ -}}
{{- define "lagless.members" -}}
{{- if eq (dig "members" "kind" "" .Values.settings) "group" }}yes{{ end }}
{{- end }}

{{- /* What scales the members: none, deployment, statefulset or keda. */ -}}
{{- define "lagless.scales" -}}
{{- if include "lagless.members" . }}{{ dig "provisioner" "kind" "none" .Values.settings }}{{ end }}
{{- end }}

{{- define "lagless.claim" -}}
{{ .Values.lake.existingClaim | default (printf "%s-lake" .Release.Name) }}
{{- end }}

{{- /* What the user says wins over what the chart sets. */ -}}
{{- define "lagless.settings" -}}
{{- $said := .Values.settings }}
{{- if not $said.group }}{{ fail "settings.group is missing: name the consumer group, for example --set settings.group=orders" }}{{ end }}
{{- if not $said.topics }}{{ fail "settings.topics is missing: list the topics to read, for example --set settings.topics={orders}" }}{{ end }}
{{- if not (dig "kafka" "bootstrap" "" $said) }}{{ fail "settings.kafka.bootstrap is missing: name a broker, for example --set settings.kafka.bootstrap=kafka:9092" }}{{ end }}
{{- if include "lagless.members" . }}
{{- $said | toToml }}
{{- else }}
{{- $ours := dict "lake" (dict "path" "/lake") }}
{{- $_ := set $ours "provisioner" (dict "kind" "kubernetes" "config_map" .Release.Name "template" "/etc/lagless/consumer.yaml" "owner" (printf "%s-controller" .Release.Name)) }}
{{- if .Values.sharedSpark.enabled }}
{{- $_ := set $ours "spark" (dict "url" (printf "sc://%s-connect:15002" .Release.Name)) }}
{{- $_ := set $ours.provisioner "image" (include "lagless.image" .) }}
{{- else }}
{{- $cores := .Values.consumer.resources.limits.cpu | default 1 | toString }}
{{- $whole := ternary (ceil (divf (trimSuffix "m" $cores | float64) 1000)) (ceil (float64 $cores)) (hasSuffix "m" $cores) | int }}
{{- $_ := set $ours "spark" (dict "url" "local" "cores" $whole "memory" .Values.consumer.sparkMemory) }}
{{- $_ := set $ours.provisioner "image" (include "lagless.sparkImage" .) }}
{{- end }}
{{- /* Cores and memory belong to "local" alone. */}}
{{- if dig "spark" "url" "" $said }}{{ $_ := unset $ours "spark" }}{{ end }}
{{- mergeOverwrite $ours (deepCopy $said) | toToml }}
{{- end }}
{{- end }}

{{- /* The user's template over what the chart gives each consumer. */ -}}
{{- define "lagless.consumer" -}}
{{- $container := dict "name" "consumer" "imagePullPolicy" .Values.image.pullPolicy }}
{{- if not .Values.sharedSpark.enabled }}{{ $_ := set $container "resources" .Values.consumer.resources }}{{ end }}
{{- with .Values.environment }}{{ $_ := set $container "env" . }}{{ end }}
{{- with .Values.environmentFrom }}{{ $_ := set $container "envFrom" . }}{{ end }}
{{- $spec := dict }}
{{- if not (include "lagless.bucket" .) }}
{{- $_ := set $container "volumeMounts" (list (dict "name" "lake" "mountPath" "/lake")) }}
{{- $_ := set $spec "volumes" (list (dict "name" "lake" "persistentVolumeClaim" (dict "claimName" (include "lagless.claim" .)))) }}
{{- end }}
{{- $own := dig "spec" "template" "spec" dict .Values.consumer.template | deepCopy }}
{{- range $own.containers | default list }}
{{- if eq .name "consumer" }}
{{- if .env }}{{ $_ := set . "env" (concat ($container.env | default list) .env) }}{{ end }}
{{- if .volumeMounts }}{{ $_ := set . "volumeMounts" (concat ($container.volumeMounts | default list) .volumeMounts) }}{{ end }}
{{- $container = mergeOverwrite $container . }}
{{- end }}
{{- end }}
{{- $containers := list $container }}
{{- range $own.containers | default list }}{{ if ne .name "consumer" }}{{ $containers = append $containers . }}{{ end }}{{ end }}
{{- if $own.volumes }}{{ $_ := set $own "volumes" (concat ($spec.volumes | default list) $own.volumes) }}{{ end }}
{{- $_ := set $spec "containers" $containers }}
{{- with .Values.imagePullSecrets }}{{ $_ := set $spec "imagePullSecrets" . }}{{ end }}
{{- if .Values.consumerServiceAccount.create }}{{ $_ := set $spec "serviceAccountName" (printf "%s-consumer" .Release.Name) }}{{ end }}
{{- $_ := unset $own "containers" }}
{{- $spec = mergeOverwrite $spec $own }}
{{- $document := dict "kind" "Deployment" "spec" (dict "template" (dict "spec" $spec)) }}
{{- $rest := deepCopy .Values.consumer.template }}
{{- if dig "spec" "template" "spec" dict $rest }}{{ $_ := unset $rest.spec.template "spec" }}{{ end }}
{{- mergeOverwrite $document $rest | toYaml }}
{{- end }}

{{- /* What every pod of a role has: call with the root. */ -}}
{{- define "lagless.pod" -}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "lagless.closed" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- /* The environment of a role's container: call with the root. */ -}}
{{- define "lagless.environment" -}}
{{- with .Values.environment }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lagless.health" -}}
livenessProbe:
  httpGet: { path: /health, port: {{ . }} }
  initialDelaySeconds: 30
  periodSeconds: 10
  failureThreshold: 6
{{- end }}

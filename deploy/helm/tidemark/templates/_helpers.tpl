{{/* The name of all objects: the release's, with the chart's in it. */}}
{{- define "tidemark.name" -}}
{{- $name := ternary .Release.Name (printf "%s-tidemark" .Release.Name) (contains "tidemark" .Release.Name) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* What the Service and the policy select: all pods of the release. */}}
{{- define "tidemark.selector" -}}
app.kubernetes.io/name: tidemark
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidemark.labels" -}}
{{ include "tidemark.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The image by its digest if there is one, else by its tag. */}}
{{- define "tidemark.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* How a probe asks. Over HTTPS the kubelet trusts any certificate, but has none of its own to show. */}}
{{- define "tidemark.probe" -}}
{{- if .http.probeCommand -}}
exec:
  command: {{- toYaml .http.probeCommand | nindent 4 }}
{{- else -}}
httpGet:
  path: {{ .path }}
  port: http
  {{- if ne .http.scheme "HTTP" }}
  scheme: {{ .http.scheme }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* How the service is asked, as JSON. `helm upgrade --reuse-values` brings no defaults of what is new in the chart. */}}
{{- define "tidemark.http" -}}
{{- merge (deepCopy (.Values.http | default dict)) (dict "scheme" "HTTP" "probeCommand" list) | toJson -}}
{{- end -}}

{{/* Whether a configuration has [http.tls], in any of the ways in which TOML says it; empty if not. */}}
{{- define "tidemark.tls" -}}
{{- $header := "^[ \\t]*\\[[ \\t]*http[ \\t]*\\.[ \\t]*tls[ \\t]*\\]" -}}
{{- $dotted := "^[ \\t]*http[ \\t]*\\.[ \\t]*tls[ \\t]*[.=]" -}}
{{- $inline := "^[ \\t]*http[ \\t]*=[ \\t]*\\{(?:[^\\n#]*[{,])?[ \\t]*tls[ \\t]*[.=]" -}}
{{- $within := "^[ \\t]*\\[[ \\t]*http[ \\t]*\\][^\\n]*\\n(?:[ \\t]*(?:[^\\[\\s][^\\n]*)?\\n)*[ \\t]*tls[ \\t]*[.=]" -}}
{{- if regexMatch (printf "(?m)(?:%s|%s|%s|%s)" $header $dotted $inline $within) (.configuration | replace "\r\n" "\n") -}}tls{{- end -}}
{{- range .env -}}{{- if hasPrefix "TIDEMARK__HTTP__TLS" .name -}}tls{{- end -}}{{- end -}}
{{- end -}}

{{/* The pipelines as JSON: one for each source, or one by itself. What a source doesn't say is as for all. */}}
{{- define "tidemark.pipelines" -}}
{{- $all := list -}}
{{- $http := include "tidemark.http" . | fromJson -}}
{{- $text := .Values.configuration | default (.Files.Get "files/tidemark.toml") -}}
{{- $common := dict "configuration" $text "secret" (.Values.secret | default (include "tidemark.name" .)) "env" .Values.env "resources" .Values.resources "storage" .Values.storage "temporary" .Values.temporary -}}
{{- range $source := .Values.sources | default (list dict) -}}
{{- $one := mergeOverwrite (deepCopy $common) (deepCopy $source) -}}
{{- $full := include "tidemark.name" $ -}}
{{- $text := $one.configuration -}}
{{- if $source.name -}}
{{- $full = printf "%s-%s" $full $source.name -}}
{{- $text = tpl $text (dict "source" $source "Template" $.Template) -}}
{{- end -}}
{{- if and (include "tidemark.tls" (dict "configuration" $text "env" $one.env)) (eq $http.scheme "HTTP") -}}
{{- fail "the configuration has [http.tls], and the probes would ask by HTTP: set http.scheme=HTTPS" -}}
{{- end -}}
{{- $all = append $all (mergeOverwrite $one (dict "fullName" $full "configuration" $text)) -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

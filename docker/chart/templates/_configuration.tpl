{{/* The configuration file: what the user gives, and what the chart sets. */}}
{{- define "configuration" -}}
{{- $kubernetes := dict "lease" .Values.lease }}
{{- if eq .Values.consumerGroups "own" }}
{{- $_ := set $kubernetes "consumer_groups" .Release.Namespace }}
{{- else if ne .Values.consumerGroups "none" }}
{{- $_ := set $kubernetes "consumer_groups" .Values.consumerGroups }}
{{- end }}
{{- $own := dict "state_dir" "/var/lib/autoscaler" "http" (dict "listen" "0.0.0.0:9301") "kubernetes" $kubernetes }}
{{- toYaml (mergeOverwrite (deepCopy .Values.configuration) $own) }}
{{- end }}

{{/* What the groups of the file scale, by namespace ("": the release's): lists of rules, and whether pods are told who they are. */}}
{{- define "scaled" -}}
{{- $found := dict }}
{{- range .Values.configuration.groups }}
{{- $workers := .workers | default dict }}
{{- if has $workers.kind (list "deployment" "scale") }}
{{- $space := $workers.namespace | default "" }}
{{- $there := get $found $space | default (dict "rules" list "pods" (list "list" "watch")) }}
{{- if eq $workers.kind "deployment" }}
{{- $rule := dict "group" "apps" "plural" "deployments" "name" $workers.deployment "verbs" (list "patch") }}
{{- $_ := set $there "rules" (append $there.rules $rule) }}
{{- $_ := set $there "pods" (list "list" "watch" "patch") }}
{{- else }}
{{- $parts := splitList "/" $workers.target }}
{{- $group := `""` }}
{{- if eq (len $parts) 4 }}
{{- $group = first $parts }}
{{- end }}
{{- $plural := printf "%ss" (index $parts (sub (len $parts) 2 | int) | lower) }}
{{- $rule := dict "group" $group "plural" $plural "name" (last $parts) "verbs" (list "get" "patch") }}
{{- $_ := set $there "rules" (append $there.rules $rule) }}
{{- end }}
{{- $_ := set $found $space $there }}
{{- end }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{- define "isthmus.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- define "isthmus.labels" -}}
app.kubernetes.io/name: isthmus
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

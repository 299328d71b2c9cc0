{{- define "isthmus.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- define "isthmus.labels" -}}
app.kubernetes.io/name: isthmus
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- /* Asked in the pod: the monitor may be on loopback, or want a token, which kubelet's own requests lack. */ -}}
{{- define "isthmus.health" -}}
exec:
  command:
    - python
    - -c
    - |
      import os, urllib.request as http
      token = os.environ.get("ISTHMUS_MONITOR_TOKEN")
      headers = {"Authorization": f"Bearer {token}"} if token else {}
      url = "http://127.0.0.1:{{ .Values.monitor.port }}/healthz"
      http.urlopen(http.Request(url, headers=headers), timeout=8)
timeoutSeconds: 10
{{- end -}}

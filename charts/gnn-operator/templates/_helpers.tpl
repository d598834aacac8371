{{- define "gnn.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 44 characters, for names made from it; two that begin alike stay apart. */}}
{{- define "gnn.fullname" -}}
{{- $name := include "gnn.name" . -}}
{{- $full := printf "%s-%s" .Release.Name $name -}}
{{- if .Values.fullnameOverride -}}
{{- $full = .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- $full = .Release.Name -}}
{{- end -}}
{{- if gt (len $full) 44 -}}
{{- $full = printf "%s-%s" ($full | trunc 35 | trimSuffix "-") (sha256sum $full | trunc 8) -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{/* What a policy's binding has where the controller watches some namespaces: the others may be another release's. */}}
{{- define "gnn.watchedResources" -}}
{{- with .Values.controller.watchNamespaces }}
matchResources:
  namespaceSelector:
    matchExpressions:
      - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
{{- end }}
{{- end -}}

{{/* Labels that select; they never change for a release. */}}
{{- define "gnn.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gnn.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "gnn.labels" -}}
{{ include "gnn.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: gnn-operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gnn.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gnn.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: set it to the ServiceAccount to use, or set serviceAccount.create=true" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The controller, as the API server knows it. */}}
{{- define "gnn.controllerUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "gnn.serviceAccountName" . }}
{{- end -}}

{{/* registry/repository:tag, or @digest; call with a dict of image and defaultTag. */}}
{{- define "gnn.image" -}}
{{- $image := .image -}}
{{- $name := $image.repository -}}
{{- with $image.registry -}}{{- $name = printf "%s/%s" . $name -}}{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .defaultTag $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "gnn.controllerImage" -}}
{{- include "gnn.image" (dict "image" .Values.image "defaultTag" .Chart.AppVersion) -}}
{{- end -}}

{{/* The worker's image, with the controller's registry and tag where it names none. */}}
{{- define "gnn.workerImage" -}}
{{- $image := .Values.tests.image -}}
{{- $registry := default .Values.image.registry $image.registry -}}
{{- $image = merge (dict "registry" $registry) $image -}}
{{- include "gnn.image" (dict "image" $image "defaultTag" (default .Chart.AppVersion .Values.image.tag)) -}}
{{- end -}}

{{/* Pod and container settings that pass Pod Security "restricted", and what the values put in their place. */}}
{{- define "gnn.podSecurityContext" -}}
{{- $context := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if not .Values.podSecurity.userFromCluster -}}
{{- $context = merge $context (dict "runAsUser" 65532 "runAsGroup" 65532) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $context (deepCopy .Values.podSecurityContext)) -}}
{{- end -}}
{{- define "gnn.containerSecurityContext" -}}
{{- $context := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- toYaml (mergeOverwrite $context (deepCopy .Values.securityContext)) -}}
{{- end -}}

{{/* How a monitor scrapes; call with that part of the values. */}}
{{- define "gnn.scraping" -}}
interval: {{ .interval }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .relabelings }}
relabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The page that alerts link to, or nothing. */}}
{{- define "gnn.runbookUrl" -}}
{{- if .Values.metrics.prometheusRule.runbookUrl -}}
{{- .Values.metrics.prometheusRule.runbookUrl -}}
{{- else if .Chart.Sources -}}
{{- printf "%s/blob/v%s/docs/runbooks.md" (first .Chart.Sources | trimSuffix "/") .Chart.AppVersion -}}
{{- end -}}
{{- end -}}

{{/* Which nodes the controller may run on, and with what priority. */}}
{{- define "gnn.placement" -}}
{{- $placement := dict -}}
{{- range $key := list "nodeSelector" "priorityClassName" "tolerations" -}}
{{- with index $.Values $key -}}{{- $_ := set $placement $key . -}}{{- end -}}
{{- end -}}
{{- with $placement -}}{{- toYaml . -}}{{- end -}}
{{- end -}}

{{/* The same for a pod that runs once beside it: rules about other pods could keep it from where the controller still is. */}}
{{- define "gnn.placementBeside" -}}
{{- include "gnn.placement" . -}}
{{- with (.Values.affinity | default dict).nodeAffinity }}
affinity:
  nodeAffinity: {{- toYaml . | nindent 4 }}
{{- end -}}
{{- end -}}

{{/* Where helm test's GNNJob is run: a namespace that the controller watches. */}}
{{- define "gnn.testNamespace" -}}
{{- $watched := .Values.controller.watchNamespaces -}}
{{- if or (not $watched) (has .Release.Namespace $watched) -}}
{{- .Release.Namespace -}}
{{- else -}}
{{- first $watched -}}
{{- end -}}
{{- end -}}

{{/* What the controller may do in a namespace whose jobs it runs. manifests/base holds the same. */}}
{{- define "gnn.jobRules" -}}
{{ .Files.Get "files/job-rules.yaml" }}
{{- if .Values.jobs.networkPolicy.enabled }}
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
{{- end }}
{{- range include "gnn.groupApis" . | fromJsonArray }}
- apiGroups: [{{ . }}]
  resources: [podgroups]
  verbs: [get, list, watch, create, delete]
{{- end }}
{{- if .Values.kueue.enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [patch]
{{- end }}
{{- end -}}

{{/* Arguments and pod of the hooks that run the controller's release command. */}}
{{- define "gnn.releaseArgs" -}}
- release
- --leader-elect
- --lease-namespace={{ .Release.Namespace }}
- --lease-name={{ include "gnn.fullname" . }}
{{- range .Values.controller.watchNamespaces }}
- --namespace={{ . }}
{{- end }}
{{- end -}}

{{- define "gnn.releasePod" -}}
restartPolicy: Never
serviceAccountName: {{ include "gnn.serviceAccountName" . }}
automountServiceAccountToken: true
{{- with include "gnn.placementBeside" . }}{{- . | nindent 0 }}{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "gnn.podSecurityContext" . | nindent 2 }}
{{- end -}}

{{/* The API groups of the PodGroups that the controller may use, as a JSON list. */}}
{{- define "gnn.groupApis" -}}
{{- $gangs := .Values.gangScheduling -}}
{{- $groups := list -}}
{{- if $gangs.native.enabled -}}{{- $groups = append $groups "scheduling.k8s.io" -}}{{- end -}}
{{- if $gangs.coscheduling.enabled -}}{{- $groups = append $groups "scheduling.x-k8s.io" -}}{{- end -}}
{{- if $gangs.volcano.enabled -}}{{- $groups = append $groups "scheduling.volcano.sh" -}}{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/* Variables of a policy: the keys, and the prefixes that end with "/", that jobs may use in their pods' metadata. */}}
{{- define "gnn.allowedKeys" -}}
{{- $keys := list -}}
{{- $prefixes := list -}}
{{- range .Values.jobs.podMetadata.allowedKeys -}}
{{- if hasSuffix "/*" . -}}
{{- $prefixes = append $prefixes (trimSuffix "*" .) -}}
{{- else -}}
{{- $keys = append $keys . -}}
{{- end -}}
{{- end -}}
- name: keys
  expression: {{ toJson $keys | quote }}
- name: prefixes
  expression: {{ toJson $prefixes | quote }}
{{- end -}}

{{/* CEL: whether the NetworkPolicyEgressRule r reaches whom the given one reaches, through its ports. */}}
{{- define "gnn.isEgressRule" -}}
{{- $peers := .to | default list -}}
{{- $ports := .ports | default list -}}
r.?to.orValue([]).size() == {{ len $peers }} && r.?ports.orValue([]).size() == {{ len $ports }}
{{- range $i, $peer := $peers }}
{{- $block := $peer.ipBlock | default dict }} &&
r.to[{{ $i }}].?ipBlock.?cidr.orValue("") == {{ toJson ($block.cidr | default "") }} &&
r.to[{{ $i }}].?ipBlock.?except.orValue([]) == {{ toJson ($block.except | default list) }}
{{- range $kind := list "podSelector" "namespaceSelector" }}
{{- $selector := get $peer $kind | default dict }} &&
r.to[{{ $i }}].?{{ $kind }}.hasValue() == {{ hasKey $peer $kind }} &&
r.to[{{ $i }}].?{{ $kind }}.?matchLabels.orValue({}) == {{ toJson ($selector.matchLabels | default dict) }} &&
r.to[{{ $i }}].?{{ $kind }}.?matchExpressions.orValue([]).size() == 0
{{- end }}
{{- end }}
{{- range $i, $port := $ports }} &&
r.ports[{{ $i }}].?protocol.orValue("TCP") == {{ toJson ($port.protocol | default "TCP") }} &&
r.ports[{{ $i }}].?port.orValue(0) == {{ toJson $port.port }} && !r.ports[{{ $i }}].?endPort.hasValue()
{{- end }}
{{- end -}}

{{/* JSON of --job-fence: who reads the agents' metrics (the controller among them), and whom a job's pods reach. */}}
{{- define "gnn.jobFence" -}}
{{- $policy := .Values.jobs.networkPolicy -}}
{{- $fence := dict -}}
{{- with $policy.metricsFrom -}}
{{- $pods := dict "matchLabels" (include "gnn.selectorLabels" $ | fromYaml) -}}
{{- $namespace := dict "matchLabels" (dict "kubernetes.io/metadata.name" $.Release.Namespace) -}}
{{- $_ := set $fence "metricsFrom" (prepend . (dict "podSelector" $pods "namespaceSelector" $namespace)) -}}
{{- end -}}
{{- if $policy.egress.enabled -}}
{{- $_ := set $fence "egress" $policy.egress.rules -}}
{{- end -}}
{{- toJson $fence -}}
{{- end -}}

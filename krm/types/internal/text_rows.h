#pragma once

/// Only for builtin_texts.cc: the first rows of the texts, "Type: text" and "  field: text" below
/// it.
namespace kintsugi::krm {

inline constexpr char kFirstTexts[] = R"(
ObjectMeta: Metadata that every stored object has.
  name: Name of the object, unique among objects of its kind in a namespace. It cannot be changed.
  generateName: Prefix from which the server makes a unique name when name is empty.
  namespace: Namespace that the object lives in; empty for kinds outside namespaces. It cannot be changed.
  selfLink: Not used any more.
  uid: Unique in time and space; set by the server when the object is created.
  resourceVersion: Opaque version of the stored object. Sent back with an update, it must still be the current one.
  generation: Number of the desired state; the server raises it when the spec changes.
  creationTimestamp: When the object was created. Set by the server.
  deletionTimestamp: When the object is due to be removed. Set by the server when deletion is asked for and finalizers are left.
  deletionGracePeriodSeconds: Seconds that the object may take to end before it is removed.
  labels: Keys and values to select objects by.
  annotations: Keys and values that tools keep with the object; they cannot be selected by.
  ownerReferences: Objects that this one depends on. When all of them are gone it is collected.
  finalizers: Names that must be removed by those who put them there before the object goes.
  managedFields: Who set which fields, kept by the server for server-side apply.
OwnerReference: Names an object that owns this one, in the same namespace or outside of namespaces.
  apiVersion: API version of the owner.
  kind: Kind of the owner.
  name: Name of the owner.
  uid: UID of the owner.
  controller: True for the one owner that manages the object.
  blockOwnerDeletion: True when foreground deletion of the owner waits for this object.
ManagedFieldsEntry: The fields that one manager set in one way.
  manager: Who set them.
  operation: How they were set: Apply or Update.
  apiVersion: Version of the kind in which the fields are named.
  time: When the manager last changed them.
  fieldsType: Format of fieldsV1; always FieldsV1.
  fieldsV1: The fields as a tree of names.
  subresource: The subresource through which they were set, empty for the object itself.
ListMeta: Metadata of a list.
  selfLink: Not used any more.
  resourceVersion: Version at which the list was read; a watch can begin there.
  continue: Token for the next part of the list, empty in the last one.
  remainingItemCount: Objects left after this part, as far as known.
  shardInfo: How the list was divided among several readers.
LabelSelector: Selects objects by their labels; all conditions must hold. An empty selector selects everything.
  matchLabels: Labels that must have these values.
  matchExpressions: Conditions on labels.
LabelSelectorRequirement: A condition on one label.
  key: The label.
  operator: In, NotIn, Exists or DoesNotExist.
  values: Values for In and NotIn, else empty.
Status: Outcome of a request that does not answer with an object.
  metadata: Metadata of a list.
  status: Success or Failure.
  message: What happened, for people.
  reason: What happened, for programs, in one word.
  details: More about the reason.
  code: The HTTP status.
StatusDetails: What a failure is about.
  name: The object.
  group: Its API group.
  kind: Its kind or resource.
  uid: Its UID.
  causes: The single faults.
  retryAfterSeconds: When the request may be sent again.
StatusCause: One fault.
  reason: The fault, for programs.
  message: The fault, for people.
  field: The field that has it.
DeleteOptions: How an object is to be deleted.
  gracePeriodSeconds: Seconds that the object may take to end; 0 is at once.
  preconditions: What must hold, else the request fails.
  orphanDependents: Deprecated: use propagationPolicy.
  propagationPolicy: What happens to dependents: Orphan, Background or Foreground.
  dryRun: "All" to go through everything without deleting.
  ignoreStoreReadErrorWithClusterBreakingPotential: Not used.
Preconditions: What an object must be to be deleted.
  uid: Its UID.
  resourceVersion: Its version.
Scale: The number of replicas of an object, whatever its kind.
  metadata: Name and labels, and what the server keeps of the object.
  spec: The wanted number.
  status: The present number.
ScaleSpec: The wanted number of replicas.
  replicas: How many are wanted.
ScaleStatus: The present number of replicas.
  replicas: How many there are.
  selector: Label selector of what is counted.
ConfigMap: Configuration data: texts and bytes under names.
  data: Texts by key. A key may be in data or in binaryData.
  binaryData: Bytes by key, base64 in JSON.
  immutable: True to refuse changes of the data. It cannot be taken back.
Secret: Confidential data under names.
  data: Bytes by key, base64 in JSON.
  stringData: Texts to be written into data, for convenience; never read back.
  immutable: True to refuse changes of the data. It cannot be taken back.
  type: What the secret is for; it decides which keys must be there. It cannot be changed.
Namespace: A scope for names.
  spec: How the namespace behaves.
  status: Where it is in its life.
NamespaceSpec: How a namespace behaves.
  finalizers: What must be emptied before the namespace goes.
NamespaceStatus: Where a namespace is in its life.
  phase: Active, or Terminating while it is emptied.
  conditions: What hinders its deletion.
NamespaceCondition: One aspect of a namespace.
  type: The aspect.
  status: True, False or Unknown.
  lastTransitionTime: When status last changed.
  reason: Why, in one word.
  message: Why, for people.
ServiceAccount: An identity for programs in a namespace.
  secrets: Secrets that programs with this identity may use.
  imagePullSecrets: Secrets for pulling images.
  automountServiceAccountToken: False to give programs no token by themselves.
ValidatingAdmissionPolicy: Rules that requests have to obey where a ValidatingAdmissionPolicyBinding says so.
  spec: The rules.
  status: What the server found in them.
ValidatingAdmissionPolicySpec: Rules for requests.
  paramKind: Kind of the parameters that bindings name; without it there are none.
  matchConstraints: Requests that the policy is about.
  validations: Expressions that must hold.
  failurePolicy: Fail or Ignore, for expressions that cannot be evaluated.
  auditAnnotations: What is noted in the audit log.
  matchConditions: Expressions that must hold for the policy to be about a request.
  variables: Expressions that others may refer to.
ParamKind: A kind of parameters.
  apiVersion: Its API version.
  kind: Its Kind.
MatchResources: Selects requests.
  namespaceSelector: By labels of the namespace.
  objectSelector: By labels of the object, before or after the change.
  resourceRules: By resource and operation; one of them must match.
  excludeResourceRules: Requests that are left out.
  matchPolicy: Exact, or Equivalent for the other versions of a resource too.
NamedRuleWithOperations: Resources and operations.
  resourceNames: Names of objects; empty is all.
  operations: CREATE, UPDATE, DELETE, CONNECT or *.
  apiGroups: API groups of the resources, or *.
  apiVersions: API versions of the resources, or *.
  resources: Resources and subresources ("widgets", "widgets/status", "*").
  scope: Cluster, Namespaced or *.
Validation: An expression that must hold.
  expression: What must be true.
  message: What is said when it is not.
  reason: Reason of the answer then.
  messageExpression: Makes the message.
AuditAnnotation: An annotation of the audit log.
  key: Its key, behind the policy's name.
  valueExpression: Makes the value; null leaves it out.
MatchCondition: A condition with a name.
  name: The name.
  expression: What must be true.
Variable: An expression with a name.
  name: Under this name it is in variables.
  expression: Makes the value.
ValidatingAdmissionPolicyStatus: What the server found in a policy.
  observedGeneration: Generation of the policy that was looked at.
  typeChecking: Expressions that do not fit the kinds that the policy is about.
  conditions: The state of the policy.
TypeChecking: Expressions that do not fit.
  expressionWarnings: One for each expression.
ExpressionWarning: An expression that does not fit.
  fieldRef: Where it is.
  warning: What is wrong with it, for each kind.
ValidatingAdmissionPolicyBinding: Says where a policy holds, and with which parameters.
  spec: Policy, parameters and requests.
ValidatingAdmissionPolicyBindingSpec: Where a policy holds.
  policyName: Name of the policy.
  paramRef: Its parameters.
  matchResources: Requests that it is about, besides what the policy says.
  validationActions: Deny, Warn or Audit, when an expression does not hold.
ParamRef: Names parameters.
  name: Name of an object.
  namespace: Its namespace; empty is that of the request.
  selector: Labels of objects, in place of a name.
  parameterNotFoundAction: Allow or Deny, when there are none.
MutatingAdmissionPolicy: Changes to requests, made where a MutatingAdmissionPolicyBinding says so.
  spec: The changes.
MutatingAdmissionPolicySpec: Changes to requests.
  paramKind: Kind of the parameters that bindings name; without it there are none.
  matchConstraints: Requests that the policy is about.
  variables: Expressions that others may refer to.
  mutations: The changes, in their order.
  failurePolicy: Fail or Ignore, for expressions that cannot be evaluated.
  matchConditions: Expressions that must hold for the policy to be about a request.
  reinvocationPolicy: Never, or IfNeeded to be asked once more when somebody changed the object afterwards.
Mutation: One change.
  patchType: ApplyConfiguration or JSONPatch.
  applyConfiguration: Fields to merge into the object.
  jsonPatch: Steps that change the object.
ApplyConfiguration: Fields to merge into an object, as server-side apply does.
  expression: Makes them, as Object{…}.
JSONPatch: Steps that change an object.
  expression: Makes a list of JSONPatch{…}.
MutatingAdmissionPolicyBinding: Says where a policy changes requests, and with which parameters.
  spec: Policy, parameters and requests.
MutatingAdmissionPolicyBindingSpec: Where a policy changes requests.
  policyName: Name of the policy.
  paramRef: Its parameters.
  matchResources: Requests that it is about, besides what the policy says.
MutatingWebhookConfiguration: Servers that may change requests.
  webhooks: The servers, and what each is asked about.
MutatingWebhook: A server that may change requests.
  name: Name of the webhook, a domain name of three parts and more.
  clientConfig: Where it is.
  rules: Requests that it is asked about.
  failurePolicy: Fail or Ignore, when it cannot be asked or is not understood.
  matchPolicy: Exact, or Equivalent for the other versions of a resource too.
  namespaceSelector: By labels of the namespace.
  objectSelector: By labels of the object, before or after the change.
  sideEffects: None, or NoneOnDryRun.
  timeoutSeconds: How long an answer is waited for, 1 to 30.
  admissionReviewVersions: Versions of AdmissionReview that it knows, the preferred one first.
  reinvocationPolicy: Never, or IfNeeded to be asked once more when somebody changed the object afterwards.
  matchConditions: Expressions that must hold for it to be asked.
ValidatingWebhookConfiguration: Servers that may refuse requests.
  webhooks: The servers, and what each is asked about.
ValidatingWebhook: A server that may refuse requests.
  name: Name of the webhook, a domain name of three parts and more.
  clientConfig: Where it is.
  rules: Requests that it is asked about.
  failurePolicy: Fail or Ignore, when it cannot be asked or is not understood.
  matchPolicy: Exact, or Equivalent for the other versions of a resource too.
  namespaceSelector: By labels of the namespace.
  objectSelector: By labels of the object, before or after the change.
  sideEffects: None, or NoneOnDryRun.
  timeoutSeconds: How long an answer is waited for, 1 to 30.
  admissionReviewVersions: Versions of AdmissionReview that it knows, the preferred one first.
  matchConditions: Expressions that must hold for it to be asked.
RuleWithOperations: Resources and operations.
  operations: CREATE, UPDATE, DELETE, CONNECT or *.
  apiGroups: API groups of the resources, or *.
  apiVersions: API versions of the resources, or *.
  resources: Resources and subresources ("widgets", "widgets/status", "*").
  scope: Cluster, Namespaced or *.
ResourceQuota: Limits what a namespace may hold.
  spec: The limits that are wanted.
  status: The limits that hold, and what is used of them.
ResourceQuotaSpec: Limits of a namespace.
  hard: The most that there may be, by resource: "configmaps", "count/widgets.example.com".
  scopes: What the limits apply to; all must hold. Empty is everything. It cannot be changed.
  scopeSelector: What the limits apply to, by conditions.
ResourceQuotaStatus: What is used of a quota.
  hard: The limits that hold.
  used: What there is now.
ScopeSelector: Conditions on scopes; all must hold.
  matchExpressions: The conditions.
ScopedResourceSelectorRequirement: A condition on one scope.
  scopeName: The scope.
  operator: In, NotIn, Exists or DoesNotExist.
  values: Values for In and NotIn, else empty.
ObjectReference: Names another object.
  kind: Kind of the object.
  namespace: Its namespace.
  name: Its name.
  uid: Its UID.
  apiVersion: Its API version.
  resourceVersion: The version that is meant, if one is.
  fieldPath: A part of the object.
LocalObjectReference: Names an object in the same namespace.
  name: Its name.
Event: A report of something that happened to an object. Kept for a limited time.
  involvedObject: What the event is about.
  regarding: What the event is about.
  related: Another object that has to do with it.
  reason: What happened, for programs, in one word.
  message: What happened, for people.
  note: What happened, for people.
  source: Who reports it; older form.
  firstTimestamp: When it was first seen; older form.
  lastTimestamp: When it was last seen; older form.
  count: How often it was seen; older form.
  type: Normal or Warning.
  eventTime: When it was first seen.
  series: How often and when last, for repeated events.
  action: What was done or failed.
  reportingComponent: The controller that reports it.
  reportingController: The controller that reports it.
  reportingInstance: Its instance.
  deprecatedSource: Who reports it; older form.
  deprecatedFirstTimestamp: When it was first seen; older form.
  deprecatedLastTimestamp: When it was last seen; older form.
  deprecatedCount: How often it was seen; older form.
EventSource: Who reports an event.
  component: The component.
  host: The machine that it runs on.
EventSeries: Repetitions of an event.
  count: How often it was seen.
  lastObservedTime: When it was last seen.
Lease: A claim that its holder renews from time to time.
  spec: The claim.
LeaseSpec: A claim and who holds it.
  holderIdentity: Who holds it.
  leaseDurationSeconds: How long others wait after renewTime before they take it.
  acquireTime: When the holder took it.
  renewTime: When the holder last renewed it.
  leaseTransitions: How often the holder changed.
  strategy: How the holder is chosen.
  preferredHolder: Who should have it next.
Role: Permissions in one namespace.
  rules: What is permitted.
ClusterRole: Permissions in all namespaces, and outside of them.
  rules: What is permitted.
  aggregationRule: Which other roles make up the rules.
AggregationRule: Which roles another role is made of.
  clusterRoleSelectors: Selects them by their labels.
PolicyRule: A permission: verbs on resources or on paths.
  verbs: What may be done; "*" is everything.
  apiGroups: Groups of the resources; "" is the core group, "*" are all.
  resources: Resources and subresources; "*" are all.
  resourceNames: The only objects that it holds for; empty are all.
  nonResourceURLs: Paths, with "*" as the last step of a path for all below. For ClusterRoles only.
RoleBinding: Gives the permissions of a role to subjects, in one namespace.
  subjects: Who gets them.
  roleRef: The role. It cannot be changed.
ClusterRoleBinding: Gives the permissions of a ClusterRole to subjects, everywhere.
  subjects: Who gets them.
  roleRef: The role. It cannot be changed.
Subject: A user, group or service account.
  kind: User, Group or ServiceAccount.
  apiGroup: rbac.authorization.k8s.io for users and groups, empty for service accounts.
  name: Its name.
  namespace: Namespace of a service account.
RoleRef: Names a role.
  apiGroup: rbac.authorization.k8s.io.
  kind: Role or ClusterRole.
  name: Its name.
SubjectAccessReview: Asks whether a user may do something.
  spec: The question.
  status: The answer.
LocalSubjectAccessReview: Asks whether a user may do something in one namespace.
  spec: The question; its namespace is that of the review.
  status: The answer.
SelfSubjectAccessReview: Asks whether the caller may do something.
  spec: The question.
  status: The answer.
SelfSubjectRulesReview: Asks for what the caller may do in a namespace.
  spec: The question.
  status: The answer.
SubjectAccessReviewStatus: Whether something is permitted.
  allowed: True when it is.
  denied: True when it is forbidden, whatever else permits it.
  reason: Why.
  evaluationError: What went wrong while permissions were looked up.
ResourceAttributes: A request for a resource.
  namespace: Its namespace; empty are all, or none for kinds outside namespaces.
  verb: What is to be done.
  group: Its API group.
  version: Its version.
  resource: The resource.
  subresource: A part of it.
  name: One object; empty are all.
  fieldSelector: Objects that are meant, by their fields.
  labelSelector: Objects that are meant, by their labels.
NonResourceAttributes: A request for another path.
  path: The path.
  verb: What is to be done.
SelfSubjectReview: Asks who the caller is.
  status: The answer.
UserInfo: A user as the server knows him.
  username: The name.
  uid: The UID.
  groups: The groups.
  extra: What else the authenticator says.
TokenReview: Asks whose token this is.
  spec: The token.
  status: The answer.
TokenRequest: Asks for a token of a service account.
  spec: What it should be good for.
  status: The token.
CustomResourceDefinition: Adds a resource to the API.
  spec: The resource.
  status: What the server made of it.
CustomResourceDefinitionSpec: A resource and its versions.
  group: The API group.
  names: Names of the resource and of its kind.
  scope: Namespaced or Cluster.
  versions: The versions, of which exactly one is stored.
  conversion: How objects are converted between versions.
  preserveUnknownFields: Must be false; schemas say it per field.
CustomResourceDefinitionNames: Names of a resource.
  plural: Name in paths.
  singular: Name of one of them.
  shortNames: Abbreviations for the command line.
  kind: Kind of the objects.
  listKind: Kind of lists.
  categories: Groups of resources that it belongs to, such as all.
CustomResourceDefinitionVersion: A version of a resource.
  name: "v1", "v1beta1" and so on.
  served: True when clients can use it.
  storage: True for the one version in which objects are stored.
  deprecated: True to warn those who use it.
  deprecationWarning: The warning, instead of the usual one.
  schema: What objects of this version look like.
  subresources: Which subresources they have.
  additionalPrinterColumns: What tables show of them.
  selectableFields: Fields that they can be selected by.
CustomResourceValidation: A schema.
  openAPIV3Schema: The schema, which must be structural.
CustomResourceSubresources: Subresources of a custom resource.
  status: Present when status is written apart from the rest.
  scale: Where the numbers of replicas are.
CustomResourceSubresourceScale: Where the numbers of replicas are.
  specReplicasPath: Path of the wanted number, below .spec.
  statusReplicasPath: Path of the present number, below .status.
  labelSelectorPath: Path of the label selector.
CustomResourceColumnDefinition: A column of a table.
  name: Its heading.
  type: integer, number, string, boolean or date.
  format: Format of the type.
  description: What it shows.
  priority: 0 for columns that are always shown, higher for wide output.
  jsonPath: Where the value is.
SelectableField: A field that objects can be selected by.
  jsonPath: Where the value is.
CustomResourceConversion: How objects are converted between versions.
  strategy: None changes only the API version, Webhook asks a server.
  webhook: The server.
WebhookClientConfig: Where a webhook is: exactly one of url and service.
  url: Its address, https://host:port/path.
  service: A Service in the cluster. There are none here: such a webhook cannot be called.
  caBundle: Certificates in PEM, of which one must have issued the server's; without them those of the system.
ServiceReference: A Service.
  namespace: Its namespace.
  name: Its name.
  path: Path of the webhook.
  port: Port of the webhook; 443 if not given.
CustomResourceDefinitionStatus: What the server made of a definition.
  conditions: Whether names were accepted and the resource is served.
  acceptedNames: The names that are in use.
  storedVersions: Versions in which objects may lie in the store.
  observedGeneration: Generation of the definition that this is about.
CustomResourceDefinitionCondition: One aspect of a definition.
  type: The aspect: Established, NamesAccepted, Terminating and others.
  status: True, False or Unknown.
  lastTransitionTime: When status last changed.
  reason: Why, in one word.
  message: Why, for people.
  observedGeneration: Generation of the definition that this is about.
)";

}  // namespace kintsugi::krm

package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	e2e "kintsugi.dev/e2e"
)

const secret = "the-innermost-secret"

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// rig is a workspace whose webhooks are tried.
type rig struct {
	*testing.T
	authority *authority
	client    *kubernetes.Clientset
}

// with is a rig for a part of the test.
func (r rig) with(t *testing.T) rig { return rig{t, r.authority, r.client} }

func (r rig) config(url string) registration.WebhookClientConfig {
	return registration.WebhookClientConfig{URL: &url, CABundle: r.authority.bundle}
}

var (
	none    = registration.SideEffectClassNone
	onMaps  = registration.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}
	creates = []registration.RuleWithOperations{{Operations: []registration.OperationType{registration.Create, registration.Update}, Rule: onMaps}}
)

// object is what webhooks of this part are asked about.
func (r rig) object(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: r.labels()}, Data: data}
}

func (r rig) labels() map[string]string {
	return map[string]string{"part": strings.NewReplacer("/", "_", ",", "").Replace(r.Name())}
}

func (r rig) validate(change func(*registration.ValidatingWebhook), url string) {
	r.Helper()
	webhook := registration.ValidatingWebhook{Name: "v.hooks.test", ClientConfig: r.config(url), Rules: creates, SideEffects: &none,
		AdmissionReviewVersions: []string{"v1"}, ObjectSelector: &metav1.LabelSelector{MatchLabels: r.labels()}}
	if change != nil {
		change(&webhook)
	}
	api := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made, err := api.Create(context.Background(), &registration.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "v-"}, Webhooks: []registration.ValidatingWebhook{webhook}}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = api.Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
}

func (r rig) mutate(name, url string, change func(*registration.MutatingWebhook)) {
	r.Helper()
	webhook := registration.MutatingWebhook{Name: name + ".hooks.test", ClientConfig: r.config(url), Rules: creates, SideEffects: &none,
		AdmissionReviewVersions: []string{"v1"}, ObjectSelector: &metav1.LabelSelector{MatchLabels: r.labels()}}
	if change != nil {
		change(&webhook)
	}
	api := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	made, err := api.Create(context.Background(), &registration.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}, Webhooks: []registration.MutatingWebhook{webhook}}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = api.Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
}

func (r rig) create(object *corev1.ConfigMap, options metav1.CreateOptions) (*corev1.ConfigMap, error) {
	return r.client.CoreV1().ConfigMaps("default").Create(context.Background(), object, options)
}

// eventually creates as a dry run until the answer is as it should be: other loops of the shard hear of a configuration a moment
// after it was stored.
func (r rig) eventually(object *corev1.ConfigMap, fine func(*corev1.ConfigMap, error) error) {
	r.Helper()
	e2e.Eventually(r.T, 40*time.Second, r.Name(), func() error { return fine(r.create(object, dryRun)) })
}

// says is a check that the request is refused in these words.
func says(code int32, message string) func(*corev1.ConfigMap, error) error {
	return func(_ *corev1.ConfigMap, err error) error {
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != code || status.Status().Message != message {
			return fmt.Errorf("want %d %q, have %v", code, message, err)
		}
		if strings.Contains(err.Error(), secret) {
			return fmt.Errorf("tells what the server answered: %w", err)
		}
		return nil
	}
}

// defaulter and validator are those of a controller.
type defaulter struct{}

func (defaulter) Default(_ context.Context, object *corev1.ConfigMap) error {
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	object.Data["defaulted"] = "yes"
	return nil
}

type validator struct{}

func (validator) ValidateCreate(_ context.Context, object *corev1.ConfigMap) (admission.Warnings, error) {
	if object.Data["size"] == "large" {
		return admission.Warnings{"think smaller"}, errors.New("too large")
	}
	return admission.Warnings{"fine"}, nil
}

func (validator) ValidateUpdate(_ context.Context, old, object *corev1.ConfigMap) (admission.Warnings, error) {
	if old.Data["fixed"] != object.Data["fixed"] {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), object.Name, nil)
	}
	return nil, nil
}

func (validator) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

// AM-334: a controller's defaulter and validator, as controller-runtime makes webhooks of them.
func TestAM334Webhooks(t *testing.T) {
	installation := e2e.StartInstallation(t, "--shards", "1", "--regions", "here")
	all := rig{t, newAuthority(t), e2e.Typed(t, installation.Config(installation.MakeWorkspace("hooks", "here")))}
	t.Run("controller", func(t *testing.T) { testController(all.with(t)) })
	t.Run("reinvocation", func(t *testing.T) { testReinvocation(all.with(t)) })
	t.Run("dry run", func(t *testing.T) { testDryRun(all.with(t)) })
	t.Run("wrong answers", func(t *testing.T) { testWrongAnswers(all.with(t)) })
	t.Run("slow", func(t *testing.T) { testSlow(all.with(t)) })
}

func testController(r rig) {
	serve := func(hook *admission.Webhook) string {
		handler, err := admission.StandaloneWebhook(hook, admission.StandaloneOptions{})
		if err != nil {
			r.Fatal(err)
		}
		return r.authority.serve(r.T, handler)
	}
	r.mutate("m", serve(admission.WithDefaulter[*corev1.ConfigMap](scheme.Scheme, defaulter{})), nil)
	r.validate(nil, serve(admission.WithValidator[*corev1.ConfigMap](scheme.Scheme, validator{})))
	r.eventually(r.object("a", map[string]string{"size": "large"}), says(403, `admission webhook "v.hooks.test" denied the request: too large`))
	made, err := r.create(r.object("a", map[string]string{"fixed": "1"}), metav1.CreateOptions{})
	if err != nil || made.Data["defaulted"] != "yes" {
		r.Fatal(made, err)
	}
	maps := r.client.CoreV1().ConfigMaps("default")
	_, err = maps.Patch(context.Background(), "a", types.MergePatchType, []byte(`{"data":{"fixed":"2"}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.HasPrefix(err.Error(), `admission webhook "v.hooks.test" denied the request: `) {
		r.Errorf("%v", err)
	}
	if _, err = maps.Patch(context.Background(), "a", types.MergePatchType, []byte(`{"data":{"x":"2"}}`), metav1.PatchOptions{}); err != nil {
		r.Error(err)
	}
	if err := maps.Delete(context.Background(), "a", metav1.DeleteOptions{}); err != nil {
		r.Error(err)
	}
}

func testReinvocation(r rig) {
	trace := func(letter string) *hook {
		return r.authority.hook(r.T, func(request admission.Request) admission.Response {
			object := &corev1.ConfigMap{}
			if err := json.Unmarshal(request.Object.Raw, object); err != nil {
				return admission.Errored(http.StatusBadRequest, err)
			}
			object.Data["trace"] += letter
			changed, _ := json.Marshal(object)
			return admission.PatchResponseFromRaw(request.Object.Raw, changed)
		})
	}
	a, b, c := trace("a"), trace("b"), trace("c")
	needed := registration.IfNeededReinvocationPolicy
	again := func(webhook *registration.MutatingWebhook) { webhook.ReinvocationPolicy = &needed }
	r.mutate("a", a.url, again)
	r.mutate("b", b.url, nil)
	r.mutate("c", c.url, again)
	r.eventually(r.object("r", map[string]string{"trace": ""}), func(made *corev1.ConfigMap, err error) error {
		// c comes last and changes the object, so a is asked again; a changes it then, so c is, too.
		if err != nil || made.Data["trace"] != "abcac" {
			return fmt.Errorf("%v %v", made.Data, err)
		}
		return nil
	})
}

func testDryRun(r rig) {
	h := r.authority.hook(r.T, func(admission.Request) admission.Response { return admission.Allowed("") })
	r.validate(nil, h.url)
	r.eventually(r.object("d", nil), func(_ *corev1.ConfigMap, err error) error {
		if requests := h.requests(); err != nil || len(requests) == 0 || !*requests[0].DryRun || requests[0].Operation != admissionv1.Create {
			return fmt.Errorf("%v %v", requests, err)
		}
		return nil
	})
}

// testWrongAnswers: each refuses with Fail, in fixed words, and lets pass with Ignore.
func testWrongAnswers(r rig) {
	const called, received = "failed to call webhook: ", "received invalid webhook response: "
	const notUnderstood = "the answer was not understood"
	write := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	review := func(change func(*admissionv1.AdmissionReview)) http.HandlerFunc {
		return func(w http.ResponseWriter, asked *http.Request) {
			body := &admissionv1.AdmissionReview{}
			_ = json.NewDecoder(asked.Body).Decode(body)
			body.Response = &admissionv1.AdmissionResponse{UID: body.Request.UID, Allowed: true}
			body.Request = nil
			change(body)
			_ = json.NewEncoder(w).Encode(body)
		}
	}
	patch := admissionv1.PatchTypeJSONPatch
	cases := []struct {
		name, want string
		handler    http.HandlerFunc
	}{
		{"bad JSON", received + notUnderstood, write(200, secret)},
		{"empty", received + notUnderstood, write(200, "")},
		{"wrong kind", received + notUnderstood, review(func(r *admissionv1.AdmissionReview) { r.Kind = secret })},
		{"wrong version", received + "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview",
			review(func(r *admissionv1.AdmissionReview) { r.APIVersion = secret })},
		{"wrong UID", received + "expected response.uid to be that of the request",
			review(func(r *admissionv1.AdmissionReview) { r.Response.UID = secret })},
		{"no response", received + "webhook response was absent", review(func(r *admissionv1.AdmissionReview) { r.Response = nil })},
		{"bad patch", "received undecodable patch in webhook response: " + notUnderstood, review(func(r *admissionv1.AdmissionReview) {
			r.Response.Patch, r.Response.PatchType = []byte(secret), &patch
		})},
		{"500", called + "the server answered 500", write(500, secret)},
		{"redirect", called + "the server answered 307", func(w http.ResponseWriter, asked *http.Request) {
			http.Redirect(w, asked, "https://127.0.0.1:1/"+secret, http.StatusTemporaryRedirect)
		}},
		{"huge", called + notUnderstood, write(200, strings.Repeat("x", 4<<20))},
	}
	for _, c := range cases {
		r.Run(c.name, func(t *testing.T) {
			part := r.with(t)
			part.mutate("m", r.authority.serve(t, c.handler), nil)
			part.eventually(part.object("w", nil), says(500, `Internal error occurred: failed calling webhook "m.hooks.test": `+c.want))
		})
		r.Run(c.name+", ignored", func(t *testing.T) {
			part := r.with(t)
			ignore := registration.Ignore
			var asked atomic.Bool
			handler := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				asked.Store(true)
				c.handler(w, request)
			})
			part.mutate("m", r.authority.serve(t, handler), func(webhook *registration.MutatingWebhook) { webhook.FailurePolicy = &ignore })
			part.eventually(part.object("w", nil), func(_ *corev1.ConfigMap, err error) error {
				if err == nil && !asked.Load() {
					return errors.New("the webhook was not asked")
				}
				return err
			})
		})
	}
	r.Run("absent", func(t *testing.T) {
		part := r.with(t)
		part.validate(nil, fmt.Sprintf("https://127.0.0.1:%d/", e2e.FreePort(t)))
		part.eventually(part.object("w", nil), says(500, `Internal error occurred: failed calling webhook "v.hooks.test": `+called+
			"the server could not be reached"))
	})
	r.Run("wrong CA", func(t *testing.T) {
		part := r.with(t)
		h := r.authority.hook(t, func(admission.Request) admission.Response { return admission.Allowed("") })
		part.validate(func(webhook *registration.ValidatingWebhook) { webhook.ClientConfig.CABundle = newAuthority(t).bundle }, h.url)
		part.eventually(part.object("w", nil), says(500, `Internal error occurred: failed calling webhook "v.hooks.test": `+called+
			"the certificate could not be verified"))
	})
}

func testSlow(r rig) {
	release := make(chan struct{})
	defer close(release)
	h := r.authority.hook(r.T, func(admission.Request) admission.Response {
		<-release
		return admission.Allowed("")
	})
	limit := int32(1)
	r.validate(func(webhook *registration.ValidatingWebhook) { webhook.TimeoutSeconds = &limit }, h.url)
	r.eventually(r.object("s", nil), says(500, `Internal error occurred: failed calling webhook "v.hooks.test": failed to call webhook: `+
		"the server could not be reached"))
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if _, err := r.create(other, dryRun); err != nil {
		r.Error(err)
	}
}

import com.google.gson.JsonObject;
import com.google.gson.reflect.TypeToken;
import io.kubernetes.client.custom.V1Patch;
import io.kubernetes.client.informer.ResourceEventHandler;
import io.kubernetes.client.informer.SharedIndexInformer;
import io.kubernetes.client.informer.SharedInformerFactory;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.CoordinationV1Api;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.apis.VersionApi;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ConfigMapList;
import io.kubernetes.client.openapi.models.V1Lease;
import io.kubernetes.client.openapi.models.V1LeaseSpec;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.util.CallGeneratorParams;
import io.kubernetes.client.util.ClientBuilder;
import io.kubernetes.client.util.KubeConfig;
import io.kubernetes.client.util.PatchUtils;
import io.kubernetes.client.util.Watch;
import io.kubernetes.client.util.generic.dynamic.DynamicKubernetesApi;
import java.io.FileReader;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The official Java client: typed and dynamic objects, patches, watches, informers. Argument: a kubeconfig. */
public final class Official {
  private static final String SPACE = "default";

  public static void main(String[] arguments) throws Exception {
    ApiClient client;
    try (FileReader file = new FileReader(arguments[0])) {
      client = ClientBuilder.kubeconfig(KubeConfig.loadKubeConfig(file)).build();
    }
    client.setReadTimeout(0);
    CoreV1Api api = new CoreV1Api(client);
    objects(client, api);
    patches(client, api);
    watch(client, api);
    informer(client, api);
    dynamic(client);
    client.getHttpClient().dispatcher().executorService().shutdown();
    client.getHttpClient().connectionPool().evictAll();
  }

  private static void objects(ApiClient client, CoreV1Api api) throws ApiException {
    equal("1", new VersionApi(client).getCode().execute().getMajor());
    V1ConfigMap made = api.createNamespacedConfigMap(SPACE, configMap("official", "a", "1")).execute();
    fails(409, "AlreadyExists", () -> api.createNamespacedConfigMap(SPACE, configMap("official", "a", "1")).execute());
    api.replaceNamespacedConfigMap("official", SPACE, api.readNamespacedConfigMap("official", SPACE).execute().putDataItem("b", "2")).execute();
    fails(409, "Conflict", () -> api.replaceNamespacedConfigMap("official", SPACE, made.putDataItem("c", "3")).execute());
    equal(Map.of("a", "1", "b", "2"), api.readNamespacedConfigMap("official", SPACE).execute().getData());
    api.deleteNamespacedConfigMap("official", SPACE).execute();
    fails(404, "NotFound", () -> api.readNamespacedConfigMap("official", SPACE).execute());
    OffsetDateTime now = OffsetDateTime.now(ZoneOffset.UTC).truncatedTo(ChronoUnit.MICROS);
    CoordinationV1Api leases = new CoordinationV1Api(client);
    leases.createNamespacedLease(SPACE, new V1Lease().metadata(new V1ObjectMeta().name("official"))
        .spec(new V1LeaseSpec().holderIdentity("me").renewTime(now))).execute();
    equal(now, leases.readNamespacedLease("official", SPACE).execute().getSpec().getRenewTime());
    leases.deleteNamespacedLease("official", SPACE).execute();
    done("objects");
  }

  private static void patches(ApiClient client, CoreV1Api api) throws ApiException {
    api.createNamespacedConfigMap(SPACE, configMap("official-patched", "a", "1")).execute();
    equal(Map.of("b", "1"), patch(client, api, V1Patch.PATCH_FORMAT_JSON_MERGE_PATCH, "{\"data\":{\"a\":null,\"b\":\"1\"}}", null));
    equal(Map.of("c", "1"), patch(client, api, V1Patch.PATCH_FORMAT_JSON_PATCH, "[{\"op\":\"move\",\"from\":\"/data/b\",\"path\":\"/data/c\"}]", null));
    equal(Map.of("d", "1"), patch(client, api, V1Patch.PATCH_FORMAT_STRATEGIC_MERGE_PATCH, "{\"data\":{\"$patch\":\"replace\",\"d\":\"1\"}}", null));
    String wanted = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: official-patched}\ndata: {d: '2'}\n";
    fails(409, "Conflict", () -> patch(client, api, V1Patch.PATCH_FORMAT_APPLY_YAML, wanted, false));
    equal(Map.of("d", "2"), patch(client, api, V1Patch.PATCH_FORMAT_APPLY_YAML, wanted, true));
    api.deleteNamespacedConfigMap("official-patched", SPACE).execute();
    done("patches");
  }

  private static Map<String, String> patch(ApiClient client, CoreV1Api api, String format, String body, Boolean force) throws ApiException {
    return PatchUtils.patch(V1ConfigMap.class, () -> api.patchNamespacedConfigMap("official-patched", SPACE, new V1Patch(body))
        .fieldManager(force == null ? null : "applier").force(force).buildCall(null), format, client).getData();
  }

  private static void watch(ApiClient client, CoreV1Api api) throws Exception {
    String start = api.listNamespacedConfigMap(SPACE).execute().getMetadata().getResourceVersion();
    api.createNamespacedConfigMap(SPACE, configMap("official-watched", "n", "1")).execute();
    api.replaceNamespacedConfigMap("official-watched", SPACE, configMap("official-watched", "n", "2")).execute();
    api.deleteNamespacedConfigMap("official-watched", SPACE).execute();
    List<String> seen = new ArrayList<>();
    try (Watch<V1ConfigMap> watch = Watch.createWatch(client, api.listNamespacedConfigMap(SPACE).watch(true).resourceVersion(start)
        .labelSelector("of=n").allowWatchBookmarks(true).timeoutSeconds(20).buildCall(null), new TypeToken<Watch.Response<V1ConfigMap>>() {}.getType())) {
      for (Watch.Response<V1ConfigMap> event : watch) {
        seen.add(event.type + " " + event.object.getData().get("n"));
        if (event.type.equals("DELETED")) {
          break;
        }
      }
    }
    equal(List.of("ADDED 1", "MODIFIED 2", "DELETED 2"), seen);
    done("watch");
  }

  private static void informer(ApiClient client, CoreV1Api api) throws Exception {
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    SharedInformerFactory factory = new SharedInformerFactory(client);
    SharedIndexInformer<V1ConfigMap> informer = factory.sharedIndexInformerFor((CallGeneratorParams params) -> api.listNamespacedConfigMap(SPACE)
        .labelSelector("of=informed").resourceVersion(params.resourceVersion).timeoutSeconds(params.timeoutSeconds).watch(params.watch).buildCall(null),
        V1ConfigMap.class, V1ConfigMapList.class);
    informer.addEventHandler(new ResourceEventHandler<>() {
      @Override
      public void onAdd(V1ConfigMap map) {
        seen.add("added " + map.getData());
      }

      @Override
      public void onUpdate(V1ConfigMap before, V1ConfigMap map) {
        seen.add("updated " + map.getData());
      }

      @Override
      public void onDelete(V1ConfigMap map, boolean unknown) {
        seen.add("deleted " + map.getData());
      }
    });
    api.createNamespacedConfigMap(SPACE, configMap("official-informed", "informed", "1")).execute();
    factory.startAllRegisteredInformers();
    equal("added {informed=1}", seen.poll(20, TimeUnit.SECONDS));
    api.replaceNamespacedConfigMap("official-informed", SPACE, configMap("official-informed", "informed", "2")).execute();
    equal("updated {informed=2}", seen.poll(20, TimeUnit.SECONDS));
    api.deleteNamespacedConfigMap("official-informed", SPACE).execute();
    equal("deleted {informed=2}", seen.poll(20, TimeUnit.SECONDS));
    factory.stopAllRegisteredInformers();
    done("informer");
  }

  private static void dynamic(ApiClient client) throws ApiException {
    DynamicKubernetesApi api = new DynamicKubernetesApi("", "v1", "configmaps", client);
    for (var item : api.list(SPACE).throwsApiException().getObject().getItems()) {
      JsonObject raw = item.getRaw();
      if (!raw.has("metadata")) {
        throw new AssertionError(raw);
      }
    }
    equal(404, api.get(SPACE, "absent").getHttpStatusCode());
    done("dynamic");
  }

  private static V1ConfigMap configMap(String name, String key, String value) {
    return new V1ConfigMap().metadata(new V1ObjectMeta().name(name).putLabelsItem("of", key)).putDataItem(key, value);
  }

  private interface Call {
    void run() throws ApiException;
  }

  private static void fails(int code, String reason, Call call) {
    try {
      call.run();
    } catch (ApiException fault) {
      equal(code, fault.getCode());
      equal(true, fault.getResponseBody().contains("\"reason\":\"" + reason + "\""));
      return;
    }
    throw new AssertionError("expected " + code + " " + reason);
  }

  private static void equal(Object want, Object have) {
    if (want == null ? have != null : !want.equals(have)) {
      throw new AssertionError("want " + want + ", have " + have);
    }
  }

  private static void done(String what) {
    System.out.println("done: " + what);
  }
}

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.ConfigMapList;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watch;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderCallbacks;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElectionConfigBuilder;
import io.fabric8.kubernetes.client.extended.leaderelection.resourcelock.LeaseLock;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.File;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The fabric8 client: typed and generic resources, patches, apply, watches, informers. Arguments: a kubeconfig, a CRD. */
public final class Fabric8 {
  private static final String SPACE = "default";
  private static final long SECONDS = 20;

  public static void main(String[] arguments) throws Exception {
    Config config = Config.fromKubeconfig(new File(arguments[0]));
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      objects(client);
      patches(client);
      pages(client);
      watch(client);
      informer(client);
      customResources(client, arguments[1]);
      leaderElection(client);
    }
    config.setOnlyHttpWatches(true); // the ones before were WebSockets
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      watch(client);
      informer(client);
    }
  }

  private static void objects(KubernetesClient client) {
    equal("1", client.getKubernetesVersion().getMajor());
    ConfigMap made = client.resource(configMap("typed", "a", "1")).inNamespace(SPACE).create();
    fails(409, "AlreadyExists", () -> client.resource(configMap("typed", "a", "1")).inNamespace(SPACE).create());
    ConfigMap edited = client.configMaps().inNamespace(SPACE).withName("typed")
        .edit(map -> new ConfigMapBuilder(map).addToData("b", "2").build());
    equal(Map.of("a", "1", "b", "2"), edited.getData());
    ConfigMap stale = new ConfigMapBuilder(made).addToData("c", "3").build();
    fails(409, "Conflict", () -> client.resource(stale).inNamespace(SPACE).lockResourceVersion(made.getMetadata().getResourceVersion()).update());
    equal(null, client.configMaps().inNamespace(SPACE).withName("absent").get());
    fails(422, "Invalid", () -> client.resource(configMap("Not A Name", "a", "1")).inNamespace(SPACE).create());
    client.configMaps().inNamespace(SPACE).withName("typed").delete();
    equal(null, client.configMaps().inNamespace(SPACE).withName("typed").get());
    done("objects");
  }

  private static void patches(KubernetesClient client) {
    var map = client.configMaps().inNamespace(SPACE).withName("patched");
    client.resource(configMap("patched", "a", "1")).inNamespace(SPACE).create();
    equal(Map.of("b", "1"), map.patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\":{\"a\":null,\"b\":\"1\"}}").getData());
    equal(Map.of("c", "1"), map.patch(PatchContext.of(PatchType.JSON), "[{\"op\":\"move\",\"from\":\"/data/b\",\"path\":\"/data/c\"}]").getData());
    equal(Map.of("d", "1"), map.patch(PatchContext.of(PatchType.STRATEGIC_MERGE), "{\"data\":{\"$patch\":\"replace\",\"d\":\"1\"}}").getData());
    ConfigMap wanted = configMap("patched", "d", "2");
    fails(409, "Conflict", () -> client.resource(wanted).inNamespace(SPACE).fieldManager("fabric8-other").serverSideApply());
    equal(Map.of("d", "2"), client.resource(wanted).inNamespace(SPACE).fieldManager("fabric8-other").forceConflicts().serverSideApply().getData());
    map.delete();
    done("patches");
  }

  private static void pages(KubernetesClient client) {
    Set<String> names = new HashSet<>();
    for (int n = 0; n < 5; n++) {
      client.resource(configMap("page-" + n, "paged", "yes")).inNamespace(SPACE).create();
    }
    String token = null;
    do {
      ConfigMapList page = client.configMaps().inNamespace(SPACE).withLabel("of", "paged")
          .list(new ListOptionsBuilder().withLimit(2L).withContinue(token).build());
      page.getItems().forEach(item -> names.add(item.getMetadata().getName()));
      token = page.getMetadata().getContinue();
    } while (token != null && !token.isEmpty());
    equal(5, names.size());
    client.configMaps().inNamespace(SPACE).withLabel("of", "paged").delete();
    done("pages");
  }

  private static void watch(KubernetesClient client) throws Exception {
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    String start = client.configMaps().inNamespace(SPACE).list().getMetadata().getResourceVersion();
    Watcher<ConfigMap> watcher = new Watcher<>() {
      @Override
      public void eventReceived(Action action, ConfigMap map) {
        seen.add(action + " " + map.getData());
      }

      @Override
      public void onClose(WatcherException cause) {
        seen.add("closed by " + cause);
      }
    };
    client.resource(configMap("watched", "watched", "1")).inNamespace(SPACE).create();
    try (Watch watch = client.configMaps().inNamespace(SPACE).withLabel("of", "watched")
        .watch(new ListOptionsBuilder().withResourceVersion(start).build(), watcher)) {
      equal("ADDED {watched=1}", next(seen));
      client.configMaps().inNamespace(SPACE).withName("watched").patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\":{\"watched\":\"2\"}}");
      equal("MODIFIED {watched=2}", next(seen));
      client.configMaps().inNamespace(SPACE).withName("watched").delete();
      equal("DELETED {watched=2}", next(seen));
    }
    done("watch");
  }

  private static void informer(KubernetesClient client) throws Exception {
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    client.resource(configMap("informed", "informed", "1")).inNamespace(SPACE).create();
    try (SharedIndexInformer<ConfigMap> informer = client.configMaps().inNamespace(SPACE).withLabel("of", "informed")
        .inform(new ResourceEventHandler<>() {
          @Override
          public void onAdd(ConfigMap map) {
            seen.add("added " + map.getData());
          }

          @Override
          public void onUpdate(ConfigMap before, ConfigMap map) {
            seen.add("updated " + before.getData() + map.getData());
          }

          @Override
          public void onDelete(ConfigMap map, boolean unknown) {
            seen.add("deleted " + map.getData());
          }
        })) {
      equal("added {informed=1}", next(seen));
      client.configMaps().inNamespace(SPACE).withName("informed").patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\":{\"informed\":\"2\"}}");
      equal("updated {informed=1}{informed=2}", next(seen));
      equal(1, informer.getStore().list().size());
      client.configMaps().inNamespace(SPACE).withName("informed").delete();
      equal("deleted {informed=2}", next(seen));
    }
    done("informer");
  }

  private static void customResources(KubernetesClient client, String definition) throws Exception {
    var crd = client.apiextensions().v1().customResourceDefinitions().load(new File(definition)).create();
    client.resource(crd).waitUntilCondition(found -> found != null && found.getStatus() != null && found.getStatus().getConditions() != null
        && found.getStatus().getConditions().stream().anyMatch(c -> c.getType().equals("Established") && c.getStatus().equals("True")),
        SECONDS, TimeUnit.SECONDS);
    var beans = client.genericKubernetesResources(new ResourceDefinitionContext.Builder().withGroup("java.example.com").withVersion("v1")
        .withKind("Bean").withPlural("beans").withNamespaced(true).build()).inNamespace(SPACE);
    GenericKubernetesResource bean = new GenericKubernetesResource();
    bean.setApiVersion("java.example.com/v1");
    bean.setKind("Bean");
    bean.setMetadata(configMap("mocha", "a", "b").getMetadata());
    bean.setAdditionalProperty("spec", Map.of("size", 1));
    GenericKubernetesResource made = beans.resource(bean).create();
    equal(1L, made.getMetadata().getGeneration());
    made.setAdditionalProperty("status", Map.of("roasted", true));
    equal(true, beans.resource(made).updateStatus().<Boolean>get("status", "roasted"));
    GenericKubernetesResource applied = beans.resource(bean).fieldManager("fabric8").forceConflicts().serverSideApply();
    equal(1, applied.<Integer>get("spec", "size"));
    beans.withName("mocha").delete();
    beans.withName("mocha").waitUntilCondition(found -> found == null, SECONDS, TimeUnit.SECONDS);
    client.resource(crd).delete();
    done("custom resources");
  }

  private static void leaderElection(KubernetesClient client) throws Exception {
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    CompletableFuture<?> election = client.leaderElector().withConfig(new LeaderElectionConfigBuilder().withName("java")
        .withLock(new LeaseLock(SPACE, "java", "me")).withLeaseDuration(Duration.ofSeconds(15)).withRenewDeadline(Duration.ofSeconds(10))
        .withRetryPeriod(Duration.ofMillis(100)).withReleaseOnCancel(true)
        .withLeaderCallbacks(new LeaderCallbacks(() -> seen.add("leads"), () -> seen.add("stopped"), name -> {})).build()).build().start();
    equal("leads", next(seen));
    equal("me", client.leases().inNamespace(SPACE).withName("java").get().getSpec().getHolderIdentity());
    election.cancel(true);
    equal("stopped", next(seen));
    done("leader election");
  }

  private static ConfigMap configMap(String name, String key, String value) {
    return new ConfigMapBuilder().withNewMetadata().withName(name).addToLabels("of", key).endMetadata().addToData(key, value).build();
  }

  private static String next(BlockingQueue<String> seen) throws InterruptedException {
    return seen.poll(SECONDS, TimeUnit.SECONDS);
  }

  private static void fails(int code, String reason, Runnable call) {
    try {
      call.run();
    } catch (KubernetesClientException fault) {
      equal(List.of(code, reason), List.of(fault.getCode(), String.valueOf(fault.getStatus().getReason())));
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

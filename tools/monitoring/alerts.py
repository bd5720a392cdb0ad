"""The alerts of configs/monitoring, one row each; what each means and what to do is docs/operations.md's.

An alert has beside its rule a case for `promtool test rules`: the series of an installation that it fires for, those of one that it
stays quiet for, and what it says. Values are one a minute, as promtool writes them: "0x5" is 0 six times, "0+2x5" grows by 2."""
import collections

CRITICAL, WARNING = "critical", "warning"
# `left` is what is looked at, `bound` what is wrong with it: the alert's expression is both. `more` must hold besides.
Alert = collections.namedtuple("Alert", "name left bound more wait severity summary fires quiet says labels")
Record = collections.namedtuple("Record", "name expr")

ERRORS = 'sum by (shard) (rate(kintsugi_requests_total{code=~"5.."}[5m]))'
REQUESTS = "sum by (shard) (rate(kintsugi_requests_total[5m]))"


def ratio_of_errors(window):
    return (f'(sum(rate(kintsugi_requests_total{{code=~"5.."}}[{window}])) or vector(0)) / '
            f"(sum(rate(kintsugi_requests_total[{window}])) > 0)")


RECORDS = [Record("kintsugi:error_ratio:5m", ratio_of_errors("5m")), Record("kintsugi:error_ratio:1h", ratio_of_errors("1h"))]

PROXY = 'job="kintsugi-proxy",instance="a"'
SHARD = 'job="kintsugi-shard",instance="shard-1"'
WORKER = 'job="kintsugi-worker",instance="w"'


def series(name, labels, *values):
    """The same metric with other values: more labels, then values, in turn."""
    pairs = zip(values[::2], values[1::2])
    return [(f"{name}{{{','.join(one for one in (labels, more) if one)}}}", value) for more, value in pairs]


def alert(name, left, bound, wait, severity, summary, fires, quiet, says, labels=None, more=""):
    return Alert(name, left, bound, more, wait, severity, summary, fires, quiet, says, labels or {})


ALERTS = [
    # A process.
    alert("KintsugiDown", 'up{job=~"kintsugi-.*"}', "== 0", "2m", CRITICAL,
          "{{ $labels.job }} {{ $labels.instance }} does not answer Prometheus.",
          series("up", SHARD, "", "0x5"), series("up", SHARD, "", "1x5") + series("up", 'job="node"', "", "0x5"),
          "kintsugi-shard shard-1 does not answer Prometheus.", {"job": "kintsugi-shard", "instance": "shard-1"}),
    alert("KintsugiCrashLoop", "changes(process_start_time_seconds[10m])", "> 3", "0m", CRITICAL,
          "{{ $labels.job }} {{ $labels.instance }} was started {{ $value }} times within 10 minutes.",
          series("process_start_time_seconds", SHARD, "", "1+60x5"), series("process_start_time_seconds", SHARD, "", "1 1 1 60 60 60"),
          "kintsugi-shard shard-1 was started 5 times within 10 minutes.", {"job": "kintsugi-shard", "instance": "shard-1"}),
    alert("KintsugiLoopSilent", "increase(kintsugi_silent_loops_total[15m])", "> 0", "0m", WARNING,
          "A loop of {{ $labels.job }} {{ $labels.instance }} took no turn for 10 s.",
          series("kintsugi_silent_loops_total", PROXY, "", "0 0 1 1 1 1"), series("kintsugi_silent_loops_total", PROXY, "", "1x5"),
          "A loop of kintsugi-proxy a took no turn for 10 s.", {"job": "kintsugi-proxy", "instance": "a"}),
    alert("KintsugiExceptions", "increase(kintsugi_caught_exceptions_total[1h])", "> 0", "0m", WARNING,
          "{{ $labels.job }} {{ $labels.instance }} met a fault of its own in a request.",
          series("kintsugi_caught_exceptions_total", SHARD, "", "0 0 1 1 1 1"), series("kintsugi_caught_exceptions_total", SHARD, "", "1x5"),
          "kintsugi-shard shard-1 met a fault of its own in a request.", {"job": "kintsugi-shard", "instance": "shard-1"}),
    alert("KintsugiFiles", "process_open_fds / process_max_fds", "> 0.8", "10m", WARNING,
          "{{ $labels.job }} {{ $labels.instance }} has {{ $value | humanizePercentage }} of the files open that it may have.",
          series("process_open_fds", PROXY, "", "900x15") + series("process_max_fds", PROXY, "", "1000x15"),
          series("process_open_fds", PROXY, "", "100x15") + series("process_max_fds", PROXY, "", "1000x15"),
          "kintsugi-proxy a has 90% of the files open that it may have.", {"job": "kintsugi-proxy", "instance": "a"}),
    alert("KintsugiMemory", "kintsugi_shed_step", "> 0", "5m", WARNING,
          "{{ $labels.job }} {{ $labels.instance }} gives up step {{ $value }} of what it does, as memory runs short.",
          series("kintsugi_shed_step", SHARD, "", "2x10"), series("kintsugi_shed_step", SHARD, "", "0 2 2 0 0 0 0 0 0 0 0"),
          "kintsugi-shard shard-1 gives up step 2 of what it does, as memory runs short.", {"job": "kintsugi-shard", "instance": "shard-1"}),
    alert("KintsugiVersionsMixed", "count(count by (version) (kintsugi_build_info))", "> 1", "4h", WARNING,
          "{{ $value }} versions have been running for four hours.",
          series("kintsugi_build_info", PROXY, 'version="1"', "1x250") + series("kintsugi_build_info", SHARD, 'version="2"', "1x250"),
          series("kintsugi_build_info", PROXY, 'version="2"', "1x250") + series("kintsugi_build_info", SHARD, 'version="2"', "1x250"),
          "2 versions have been running for four hours."),
    # Requests.
    alert("KintsugiErrorBudget", "kintsugi:error_ratio:1h", "> 0.0144", "2m", CRITICAL,
          "{{ $value | humanizePercentage }} of the requests of the last hour failed with 5xx, and they still fail.",
          series("kintsugi_requests_total", PROXY, 'shard="root",verb="get",code="503"', "0+6x70", 'shard="root",verb="get",code="200"', "0+54x70"),
          series("kintsugi_requests_total", PROXY, 'shard="root",verb="get",code="503"', "0+6x10 60x60", 'shard="root",verb="get",code="200"', "0+54x70"),
          "10% of the requests of the last hour failed with 5xx, and they still fail.", more="kintsugi:error_ratio:5m > 0.0144"),
    alert("KintsugiSlow", "histogram_quantile(0.99, sum by (instance, le) (rate(proxy_request_duration_seconds_bucket[5m])))", "> 1", "10m", WARNING,
          "One of a hundred requests at proxy {{ $labels.instance }} takes {{ $value | humanizeDuration }}.",
          series("proxy_request_duration_seconds_bucket", PROXY, 'le="1"', "0+10x30", 'le="5"', "0+60x30", 'le="+Inf"', "0+60x30"),
          series("proxy_request_duration_seconds_bucket", PROXY, 'le="1"', "0+60x30", 'le="5"', "0+60x30", 'le="+Inf"', "0+60x30"),
          "One of a hundred requests at proxy a takes 4.952s.", {"instance": "a"}),
    alert("KintsugiLimited", "sum by (job, instance, limit) (rate(kintsugi_limited_total[5m]))", "> 1", "15m", WARNING,
          "{{ $labels.job }} {{ $labels.instance }} refuses {{ $value | humanize }} requests a second for the limit {{ $labels.limit }}.",
          series("kintsugi_limited_total", PROXY, 'limit="user.rps"', "0+120x30"), series("kintsugi_limited_total", PROXY, 'limit="user.rps"', "0+6x30"),
          "kintsugi-proxy a refuses 2 requests a second for the limit user.rps.", {"job": "kintsugi-proxy", "instance": "a", "limit": "user.rps"}),
    alert("KintsugiQueueFull", "sum by (job, instance, level) (rate(kintsugi_queue_rejected_total[5m]))", "> 1", "5m", WARNING,
          "{{ $labels.job }} {{ $labels.instance }} has no place for {{ $value | humanize }} requests a second of level {{ $labels.level }}.",
          series("kintsugi_queue_rejected_total", PROXY, 'level="tenant",reason="full"', "0+120x15"),
          series("kintsugi_queue_rejected_total", PROXY, 'level="tenant",reason="full"', "0+6x15"),
          "kintsugi-proxy a has no place for 2 requests a second of level tenant.", {"job": "kintsugi-proxy", "instance": "a", "level": "tenant"}),
    alert("KintsugiQuota", "max by (instance, quota) (kintsugi_quota_used_ratio)", "> 0.9", "15m", WARNING,
          "A workspace on {{ $labels.instance }} has {{ $value | humanizePercentage }} of its quota {{ $labels.quota }}.",
          series("kintsugi_quota_used_ratio", SHARD, 'quota="bytes"', "0.95x20"), series("kintsugi_quota_used_ratio", SHARD, 'quota="bytes"', "0.5x20"),
          "A workspace on shard-1 has 95% of its quota bytes.", {"instance": "shard-1", "quota": "bytes"}),
    # Shards, as proxies see them.
    alert("KintsugiShardDown", "min by (shard) (kintsugi_shard_up)", "== 0", "1m", CRITICAL, "Shard {{ $labels.shard }} does not answer the proxy.",
          series("kintsugi_shard_up", PROXY, 'shard="shard-1"', "0x5"), series("kintsugi_shard_up", PROXY, 'shard="shard-1"', "1x5"),
          "Shard shard-1 does not answer the proxy.", {"shard": "shard-1"}),
    alert("KintsugiShardErrors", f"{ERRORS} / {REQUESTS}", "> 0.02", "5m", WARNING,
          "{{ $value | humanizePercentage }} of the requests to shard {{ $labels.shard }} fail with 5xx.",
          series("kintsugi_requests_total", PROXY, 'shard="root",verb="get",code="503"', "0+60x15", 'shard="root",verb="get",code="200"', "0+540x15"),
          series("kintsugi_requests_total", PROXY, 'shard="root",verb="get",code="503"', "0+6x15", 'shard="root",verb="get",code="200"', "0+54x15"),
          "10% of the requests to shard root fail with 5xx.", {"shard": "root"}, more=f"{REQUESTS} > 2"),
    alert("KintsugiIndexLag", "max by (shard) (kintsugi_index_lag_seconds)", "> 30", "2m", WARNING,
          "The proxy has heard nothing new of workspaces on shard {{ $labels.shard }} for {{ $value | humanizeDuration }}.",
          series("kintsugi_index_lag_seconds", PROXY, 'shard="root"', "60x5"), series("kintsugi_index_lag_seconds", PROXY, 'shard="root"', "0x5"),
          "The proxy has heard nothing new of workspaces on shard root for 1m 0s.", {"shard": "root"}),
    alert("KintsugiClustersConflict", "max(kintsugi_topology_conflicting_clusters)", "> 0", "5m", CRITICAL,
          "Logical clusters that several shards report: {{ $value }}.",
          series("kintsugi_topology_conflicting_clusters", PROXY, "", "1x10"), series("kintsugi_topology_conflicting_clusters", PROXY, "", "0x10"),
          "Logical clusters that several shards report: 1."),
    alert("KintsugiReplicationStopped", "min by (instance, shard) (kintsugi_replication_watching)", "== 0", "5m", WARNING,
          "Shard {{ $labels.instance }} does not follow shard {{ $labels.shard }}.",
          series("kintsugi_replication_watching", SHARD, 'shard="root"', "0x10"), series("kintsugi_replication_watching", SHARD, 'shard="root"', "1x10"),
          "Shard shard-1 does not follow shard root.", {"instance": "shard-1", "shard": "root"}),
    # Lists and watches over shards.
    alert("KintsugiWatchLag", "max by (shard) (kintsugi_shard_watch_lag_seconds)", "> 30", "2m", WARNING,
          "Watches over all shards have heard nothing of {{ $labels.shard }} for {{ $value | humanizeDuration }}.",
          series("kintsugi_shard_watch_lag_seconds", PROXY, 'shard="root"', "60x5"), series("kintsugi_shard_watch_lag_seconds", PROXY, 'shard="root"', "0x5"),
          "Watches over all shards have heard nothing of root for 1m 0s.", {"shard": "root"}),
    alert("KintsugiWatchEvictions", 'sum by (reason) (rate(kintsugi_watch_evictions_total{reason!="drain"}[10m]))', "> 0.1", "15m", WARNING,
          "The proxy ends {{ $value | humanize }} watches a second: {{ $labels.reason }}.",
          series("kintsugi_watch_evictions_total", PROXY, 'reason="slow"', "0+60x30"), series("kintsugi_watch_evictions_total", PROXY, 'reason="drain"', "0+60x30"),
          "The proxy ends 1 watches a second: slow.", {"reason": "slow"}),
    alert("KintsugiCursorExpired", "sum by (reason) (rate(kintsugi_cursor_expired_total[15m]))", "> 1", "15m", WARNING,
          "{{ $value | humanize }} reads a second over all shards get 410: {{ $labels.reason }}.",
          series("kintsugi_cursor_expired_total", PROXY, 'reason="history"', "0+120x40"), series("kintsugi_cursor_expired_total", PROXY, 'reason="history"', "0+6x40"),
          "2 reads a second over all shards get 410: history.", {"reason": "history"}),
    # What is configured and kept.
    alert("KintsugiCertificateSoon", "min by (use, name) (kintsugi_certificate_expiration_timestamp_seconds) - time()", "< 1209600", "1h", WARNING,
          "The {{ $labels.use }} certificate {{ $labels.name }} ends in {{ $value | humanizeDuration }}.",
          series("kintsugi_certificate_expiration_timestamp_seconds", PROXY, 'use="serving",name="listener.cert_file"', "90000x90"),
          series("kintsugi_certificate_expiration_timestamp_seconds", PROXY, 'use="serving",name="listener.cert_file"', "9000000x90"),
          "The serving certificate listener.cert_file ends in 23h 30m 0s.", {"use": "serving", "name": "listener.cert_file"}),
    alert("KintsugiCertificateEnded", "min by (use, name) (kintsugi_certificate_expiration_timestamp_seconds) - time()", "< 0", "0m", CRITICAL,
          "The {{ $labels.use }} certificate {{ $labels.name }} has ended.",
          series("kintsugi_certificate_expiration_timestamp_seconds", PROXY, 'use="serving",name="listener.cert_file"', "60x5"),
          series("kintsugi_certificate_expiration_timestamp_seconds", PROXY, 'use="serving",name="listener.cert_file"', "9000x5"),
          "The serving certificate listener.cert_file has ended.", {"use": "serving", "name": "listener.cert_file"}),
    alert("KintsugiCommitSlow", "histogram_quantile(0.99, sum by (job, instance, le) (rate(kintsugi_store_commit_duration_seconds_bucket[5m])))", "> 0.1", "10m", WARNING,
          "One of a hundred commits of {{ $labels.job }} {{ $labels.instance }} takes {{ $value | humanizeDuration }}.",
          series("kintsugi_store_commit_duration_seconds_bucket", SHARD, 'le="0.128"', "0x30", 'le="0.256"', "0+60x30", 'le="+Inf"', "0+60x30"),
          series("kintsugi_store_commit_duration_seconds_bucket", SHARD, 'le="0.008"', "0+60x30", 'le="0.256"', "0+60x30", 'le="+Inf"', "0+60x30"),
          "One of a hundred commits of kintsugi-shard shard-1 takes 254.7ms.", {"job": "kintsugi-shard", "instance": "shard-1"}),
    alert("KintsugiDiskFull", "kintsugi_data_room_bytes / (kintsugi_data_disk_bytes > 0)", "< 0.1", "10m", WARNING,
          "{{ $labels.job }} {{ $labels.instance }} has {{ $value | humanizePercentage }} of its data's disk left.",
          series("kintsugi_data_room_bytes", SHARD, "", "5e9x20") + series("kintsugi_data_disk_bytes", SHARD, "", "1e11x20"),
          series("kintsugi_data_room_bytes", SHARD, "", "5e10x20") + series("kintsugi_data_disk_bytes", SHARD, "", "1e11x20"),
          "kintsugi-shard shard-1 has 5% of its data's disk left.", {"job": "kintsugi-shard", "instance": "shard-1"}),
    alert("KintsugiBackupOld", "time() - kintsugi_backup_timestamp_seconds", "> 172800", "1h", WARNING,
          "{{ $labels.job }} {{ $labels.instance }} was last backed up {{ $value | humanizeDuration }} ago.",
          series("kintsugi_backup_timestamp_seconds", SHARD, "", "-180000x90"), series("kintsugi_backup_timestamp_seconds", SHARD, "", "0x90"),
          "kintsugi-shard shard-1 was last backed up 2d 3h 30m 0s ago.", {"job": "kintsugi-shard", "instance": "shard-1"}),
    alert("KintsugiReloadFailed", 'increase(kintsugi_reloads_total{result="error"}[15m])', "> 0", "0m", WARNING,
          "Proxy {{ $labels.instance }} could not read {{ $labels.file }} again.",
          series("kintsugi_reloads_total", PROXY, 'file="backend.ca_file",result="error"', "0 0 1 1 1 1"),
          series("kintsugi_reloads_total", PROXY, 'file="backend.ca_file",result="ok"', "0 0 1 1 1 1"),
          "Proxy a could not read backend.ca_file again.", {"job": "kintsugi-proxy", "instance": "a", "file": "backend.ca_file", "result": "error"}),
    alert("KintsugiAuditDropped",
          'increase(kintsugi_audit_dropped_total[5m]) + on (job, instance) increase(kintsugi_audit_webhook_events_total{result="dropped"}[5m])', "> 0", "0m",
          CRITICAL, "{{ $labels.job }} {{ $labels.instance }} has lost audit events.",
          series("kintsugi_audit_dropped_total", PROXY, "", "0 0 7 7 7 7") + series("kintsugi_audit_webhook_events_total", PROXY, 'result="dropped"', "0x5"),
          series("kintsugi_audit_dropped_total", PROXY, "", "7x5") + series("kintsugi_audit_webhook_events_total", PROXY, 'result="dropped"', "0x5"),
          "kintsugi-proxy a has lost audit events.", {"job": "kintsugi-proxy", "instance": "a"}),
    # What the proxy computes, and workers.
    alert("KintsugiTopologyErrors", 'sum by (kind, reason) (rate(kintsugi_topology_reconcile_errors_total{reason!="Conflict"}[10m]))', "> 0", "15m", WARNING,
          "The proxy cannot compute {{ $labels.kind }} objects: {{ $labels.reason }}.",
          series("kintsugi_topology_reconcile_errors_total", PROXY, 'kind="PartitionSet",reason="Internal"', "0+1x40"),
          series("kintsugi_topology_reconcile_errors_total", PROXY, 'kind="PartitionSet",reason="Conflict"', "0+1x40"),
          "The proxy cannot compute PartitionSet objects: Internal.", {"kind": "PartitionSet", "reason": "Internal"}),
    alert("KintsugiSlicesNotReady", 'max by (reason) (kintsugi_slices_not_ready{reason!="NoConsumers"})', "> 0", "30m", WARNING,
          "{{ $value }} APIExportEndpointSlices are not ready: {{ $labels.reason }}.",
          series("kintsugi_slices_not_ready", PROXY, 'reason="ErrorGeneratingURLs"', "3x40"), series("kintsugi_slices_not_ready", PROXY, 'reason="NoConsumers"', "3x40"),
          "3 APIExportEndpointSlices are not ready: ErrorGeneratingURLs.", {"reason": "ErrorGeneratingURLs"}),
    alert("KintsugiWorkerIdle", "max by (instance, role) (worker_units)", "== 0", "10m", CRITICAL,
          "Worker {{ $labels.instance }} of role {{ $labels.role }} works on no shard.",
          series("worker_units", WORKER, 'role="messaging"', "0x15"), series("worker_units", WORKER, 'role="messaging"', "3x15"),
          "Worker w of role messaging works on no shard.", {"instance": "w", "role": "messaging"}),
    alert("KintsugiWorkerQueue", "sum by (instance, controller) (workqueue_depth)", "> 1000", "15m", WARNING,
          "{{ $value }} keys wait for controller {{ $labels.controller }} of worker {{ $labels.instance }}.",
          series("workqueue_depth", WORKER, 'name="a",controller="address",priority="0"', "2000x20"),
          series("workqueue_depth", WORKER, 'name="a",controller="address",priority="0"', "20x20"),
          "2000 keys wait for controller address of worker w.", {"instance": "w", "controller": "address"}),
    alert("KintsugiWorkerErrors", "sum by (instance, controller) (rate(controller_runtime_reconcile_errors_total[10m]))", "> 0.1", "15m", WARNING,
          "{{ $value | humanize }} reconciles a second of controller {{ $labels.controller }} fail at worker {{ $labels.instance }}.",
          series("controller_runtime_reconcile_errors_total", WORKER, 'controller="address"', "0+60x30"),
          series("controller_runtime_reconcile_errors_total", WORKER, 'controller="address"', "0 1 1x28"),
          "1 reconciles a second of controller address fail at worker w.", {"instance": "w", "controller": "address"}),
    alert("KintsugiWorkerMemory", "worker_memory_pressure", "== 1", "5m", WARNING,
          "Worker {{ $labels.instance }} of role {{ $labels.role }} has 80 % of its memory.",
          series("worker_memory_pressure", WORKER, 'role="messaging"', "1x10"), series("worker_memory_pressure", WORKER, 'role="messaging"', "0x10"),
          "Worker w of role messaging has 80 % of its memory.", {"job": "kintsugi-worker", "instance": "w", "role": "messaging"}),
]

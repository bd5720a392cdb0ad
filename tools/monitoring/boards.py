"""The Grafana boards of configs/monitoring, a row for each panel."""
import collections

# kind: stat, timeseries, heatmap. `queries` are (PromQL, legend); $instance and $shard are what is chosen at the top of the board.
Panel = collections.namedtuple("Panel", "title kind unit says queries")
Board = collections.namedtuple("Board", "uid title says variables panels")

AT = 'instance=~"$instance"'
OF = 'shard=~"$shard"'


def stat(title, unit, says, query):
    return Panel(title, "stat", unit, says, [(query, "")])


def lines(title, unit, says, *queries):
    return Panel(title, "timeseries", unit, says, list(queries))


def rate(metric, by, labels=AT):
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def quantiles(metric, labels=AT, by="le"):
    return [(f"histogram_quantile({q}, sum by ({by}) (rate({metric}_bucket{{{labels}}}[$__rate_interval])))", f"p{int(q * 100)}") for q in (0.5, 0.9, 0.99)]


def mean(metric, by, labels=AT):
    return f"sum by ({by}) (rate({metric}_sum{{{labels}}}[$__rate_interval])) / sum by ({by}) (rate({metric}_count{{{labels}}}[$__rate_interval]))"


OVERVIEW = Board("kintsugi-overview", "Kintsugi: overview", "Is everything up, and what does it answer?", [], [
    stat("Shards up", "none", "that answer the proxy", "sum(min by (shard) (kintsugi_shard_up))"),
    stat("Shards down", "none", "that do not", "count(min by (shard) (kintsugi_shard_up) == 0) or vector(0)"),
    stat("Processes up", "none", "proxies, shards and workers that answer Prometheus", 'sum(up{job=~"kintsugi-.*"})'),
    stat("Logical clusters", "none", "workspaces, and those of the system", "sum(max by (shard) (kcp_indexed_logicalclusters))"),
    stat("Certificates: first end", "s", "until the first certificate ends", "min(kintsugi_certificate_expiration_timestamp_seconds) - time()"),
    stat("Alerts that fire", "none", "those of kintsugi.rules.yml", 'count(ALERTS{alertname=~"Kintsugi.*",alertstate="firing"}) or vector(0)'),
    lines("Requests", "reqps", "that proxies forward, by verb; a watch counts when it begins",
          ("sum by (verb) (rate(kintsugi_requests_total[$__rate_interval]))", "{{verb}}")),
    lines("Answers by class", "reqps", "answers of shards, by the first digit of their code",
          ('sum by (class) (label_replace(rate(kintsugi_requests_total[$__rate_interval]), "class", "${1}xx", "code", "(.).*"))', "{{class}}")),
    lines("Share of 5xx", "percentunit", "of the last 5 minutes, and of the last hour", ("kintsugi:error_ratio:5m", "5m"), ("kintsugi:error_ratio:1h", "1h")),
    lines("How long requests take", "s", "at the proxy, to the end of the answer; no watches",
          *quantiles("proxy_request_duration_seconds", 'job="kintsugi-proxy"')),
    lines("The proxy's own part", "s", "of requests that it forwards: until they are on their way, and back",
          *quantiles("kintsugi_request_overhead_seconds", 'job="kintsugi-proxy"')),
    lines("Open requests and watches", "none", "streams to shards", ("sum by (kind) (kintsugi_streams)", "{{kind}}")),
    lines("Watches over all shards", "none", "of clients", ('sum(kintsugi_watch_streams{job="kintsugi-proxy"})', "watches")),
    lines("Refused", "reqps", "429, by limit; queues that were full",
          ("sum by (limit) (rate(kintsugi_limited_total[$__rate_interval])) > 0", "{{limit}}"),
          ("sum by (level) (rate(kintsugi_queue_rejected_total[$__rate_interval])) > 0", "queue of {{level}}")),
    lines("What runs", "none", "processes by version", ("count by (version, process) (kintsugi_build_info)", "{{process}} {{version}}")),
])

SHARDS = Board("kintsugi-shards", "Kintsugi: shards", "Which shard is slow, away, or full?", ["shard"], [
    lines("Up", "none", "1 while the shard answers probes and requests", (f"min by (shard) (kintsugi_shard_up{{{OF}}})", "{{shard}}")),
    lines("Requests", "reqps", "by shard", (rate("kintsugi_requests_total", "shard", OF), "{{shard}}")),
    lines("5xx", "reqps", "answers of shards, and of the proxy for shards that are away", (rate("kintsugi_requests_total", "shard", OF + ',code=~"5.."'), "{{shard}}")),
    lines("Failures on the way", "ops", "requests that did not reach the shard, by reason", (rate("kintsugi_forward_failures_total", "shard, reason", OF), "{{shard}} {{reason}}")),
    lines("Tried again", "ops", "requests", (rate("kintsugi_retries_total", "shard, reason", OF), "{{shard}} {{reason}}")),
    lines("Open streams", "none", "requests and watches", (f"sum by (shard, kind) (kintsugi_streams{{{OF}}})", "{{shard}} {{kind}}")),
    lines("Waiting", "none", "requests that wait for a stream to the shard", (f"sum by (shard) (kintsugi_shard_queue_length{{{OF}}})", "{{shard}}")),
    lines("Bytes", "Bps", "of bodies", (rate("kintsugi_stream_bytes_total", "shard, direction", OF), "{{shard}} {{direction}}")),
    lines("Connections", "none", "to shards", (f"sum by (shard, kind) (kintsugi_shard_connections{{{OF}}})", "{{shard}} {{kind}}")),
    lines("Logical clusters", "none", "that the shard owns", (f"max by (shard) (kcp_indexed_logicalclusters{{{OF}}})", "{{shard}}")),
    lines("The index is behind", "s", "for how long the proxy has heard nothing of the shard's workspaces", (f"max by (shard) (kintsugi_index_lag_seconds{{{OF}}})", "{{shard}}")),
    lines("Fullest workspace", "percentunit", "of its quota, on each shard", ('max by (instance, quota) (kintsugi_quota_used_ratio{instance=~"$shard"})', "{{instance}} {{quota}}")),
    lines("Admission webhooks", "s", "how long they take, on average", (mean("apiserver_admission_webhook_admission_duration_seconds", "instance, type", 'instance=~"$shard"'), "{{instance}} {{type}}")),
])

WATCHES = Board("kintsugi-watches", "Kintsugi: lists and watches over shards", "Who reads over all shards, and is it up to date?", ["instance"], [
    lines("Watches", "none", "of clients, by group of the API", (f"sum by (group) (kintsugi_watch_streams{{{AT}}})", "{{group}}")),
    lines("Shared", "none", "streams to shards that watches share, and those that they would have, each for itself",
          (f"sum(kintsugi_watch_group_streams{{{AT}}})", "shared"), (f"sum(kintsugi_watch_unshared_streams{{{AT}}})", "each for itself")),
    lines("Events", "ops", "sent to clients", (rate("kintsugi_watch_events_total", "group"), "{{group}}")),
    lines("Behind", "bytes", "what waits for clients to read it", (f"sum by (group) (kintsugi_watch_queue_bytes{{{AT}}})", "{{group}}")),
    lines("Lag", "s", "for how long watches have not heard a shard", (f"max by (shard) (kintsugi_shard_watch_lag_seconds{{{AT}}})", "{{shard}}")),
    lines("Ended by the proxy", "ops", "watches, by reason", (rate("kintsugi_watch_evictions_total", "reason"), "{{reason}}")),
    lines("Asked for again", "ops", "streams of shards", (rate("kintsugi_resyncs_total", "shard, reason"), "{{shard}} {{reason}}")),
    lines("410", "reqps", "reads that have to begin anew, by reason", (rate("kintsugi_cursor_expired_total", "reason"), "{{reason}}")),
    lines("Bookmarks", "ops", "sent to clients", (f"sum(rate(kintsugi_watch_bookmarks_total{{{AT}}}[$__rate_interval]))", "bookmarks")),
    lines("Lists", "reqps", "over all shards, by code", (rate("kintsugi_list_seconds_count", "code"), "{{code}}")),
    lines("How long lists take", "s", "over all shards", *quantiles("kintsugi_list_seconds")),
    lines("Failures of shards", "ops", "in reads over all shards", (rate("kintsugi_shard_failures_total", "shard, reason"), "{{shard}} {{reason}}")),
    lines("Recent events", "bytes", "that the proxy keeps to resume watches", (f"sum(kintsugi_watch_log_bytes{{{AT}}})", "bytes")),
    lines("Reviews", "ops", "of rights, by what came of them", (rate("kintsugi_authz_reviews_total", "decision"), "{{decision}}")),
])

PROCESSES = Board("kintsugi-processes", "Kintsugi: processes", "What do proxies, shards and workers take, and what do they refuse?", ["job", "instance"], [
    lines("CPU", "short", "cores in use", ('rate(process_cpu_seconds_total{job=~"$job",instance=~"$instance"}[$__rate_interval])', "{{instance}}")),
    lines("Memory", "bytes", "in RAM", ('process_resident_memory_bytes{job=~"$job",instance=~"$instance"}', "{{instance}}")),
    lines("Memory of its budget", "percentunit", "what is given up begins at 70 %", (f"kintsugi_memory_used_bytes{{{AT}}} / kintsugi_memory_budget_bytes{{{AT}}}", "{{instance}}")),
    lines("Open files", "percentunit", "of those that may be", ('process_open_fds{job=~"$job",instance=~"$instance"} / process_max_fds{job=~"$job",instance=~"$instance"}', "{{instance}}")),
    lines("Running since", "s", "time since the start", ('time() - process_start_time_seconds{job=~"$job",instance=~"$instance"}', "{{instance}}")),
    lines("Threads", "none", "", ('process_threads{job=~"$job",instance=~"$instance"}', "{{instance}}")),
    lines("Connections", "none", "of clients; how many there may be is the limit", (f"kintsugi_connections{{{AT}}}", "{{instance}}"), (f"kintsugi_connections_limit{{{AT}}}", "limit of {{instance}}")),
    lines("Failed handshakes", "ops", "of clients", (f"rate(kintsugi_tls_handshake_errors_total{{{AT}}}[$__rate_interval])", "{{instance}}")),
    lines("Seats", "none", "requests that run, by level; those that may", (f'sum by (instance, level) (kintsugi_seats{{{AT},state="taken"}})', "{{instance}} {{level}}"), (f"kintsugi_seats_open{{{AT}}}", "open at {{instance}}")),
    lines("Queues", "none", "requests that wait for a seat", (f"sum by (instance, level) (kintsugi_queue_length{{{AT}}})", "{{instance}} {{level}}")),
    lines("Shed", "none", "what is given up since memory runs short", (f"kintsugi_shed_step{{{AT}}}", "{{instance}}")),
    lines("Abuse", "ops", "what clients did that costs and brings nothing", (rate("kintsugi_abuse_total", "instance, kind") + " > 0", "{{instance}} {{kind}}")),
    lines("Silent loops, faults", "none", "since the start", (f"kintsugi_silent_loops_total{{{AT}}}", "silent {{instance}}"), (f"kintsugi_caught_exceptions_total{{{AT}}}", "faults {{instance}}")),
    lines("Commits", "ops", "transactions that are on the disk; groups that failed", (rate("kintsugi_store_commits_total", "instance"), "{{instance}}"),
          (rate("kintsugi_store_commit_failures_total", "instance"), "failed {{instance}}")),
    lines("How long commits take", "s", "until a group of them is on the disk, or etcd has one", *quantiles("kintsugi_store_commit_duration_seconds")),
    lines("Audit", "ops", "events; those that were lost", (rate("kintsugi_audit_events_total", "instance"), "{{instance}}"), (rate("kintsugi_audit_dropped_total", "instance"), "lost {{instance}}")),
    lines("Certificates", "s", "until they end", ("min by (instance, use, name) (kintsugi_certificate_expiration_timestamp_seconds"
                                                   f"{{{AT}}}) - time()", "{{instance}} {{use}} {{name}}")),
    lines("Reloads", "none", "of files, since the start", (f"sum by (instance, file, result) (kintsugi_reloads_total{{{AT}}})", "{{file}} {{result}}")),
])

TOPOLOGY = Board("kintsugi-topology", "Kintsugi: topology", "What does the proxy compute, and do shards follow each other?", ["instance"], [
    lines("Objects", "none", "that the proxy serves", (f"sum by (resource) (kintsugi_topology_objects{{{AT}}})", "{{resource}}")),
    lines("Endpoints of slices", "none", "by mode", (f"sum by (mode) (kintsugi_slice_endpoints{{{AT}}})", "{{mode}}")),
    lines("Slices that are not ready", "none", "by reason", (f"max by (reason) (kintsugi_slices_not_ready{{{AT}}})", "{{reason}}")),
    lines("Writes", "ops", "of what is computed", (rate("kintsugi_topology_writes_total", "resource, op"), "{{resource}} {{op}}")),
    lines("Errors", "ops", "of computing", (rate("kintsugi_topology_reconcile_errors_total", "kind, reason"), "{{kind}} {{reason}}")),
    lines("Lag", "s", "from a change until it is written", *quantiles("kintsugi_topology_lag_seconds")),
    lines("Index", "none", "objects that the proxy follows", (f"sum by (shard, resource) (kintsugi_index_objects{{{AT}}})", "{{shard}} {{resource}}")),
    lines("Lookups", "ops", "of workspaces, by what was found", (rate("kintsugi_lookups_total", "result"), "{{result}}")),
    lines("Clusters of two shards", "none", "that several shards report", (f"max(kintsugi_topology_conflicting_clusters{{{AT}}})", "clusters")),
    lines("Shards that follow others", "none", "1: right now", (f"min by (instance, shard) (kintsugi_replication_watching{{{AT}}})", "{{instance}} follows {{shard}}")),
    lines("Copies", "none", "objects of another shard", (f"sum by (instance, shard) (kintsugi_replication_objects{{{AT}}})", "{{instance}} of {{shard}}")),
    lines("Copies that wait", "none", "for the store", (f"kintsugi_replication_rows_waiting{{{AT}}}", "{{instance}}")),
])

WORKERS = Board("kintsugi-workers", "Kintsugi: workers", "Do controllers keep up?", ["instance"], [
    lines("Reconciles", "ops", "by result", (rate("controller_runtime_reconcile_total", "controller, result"), "{{controller}} {{result}}")),
    lines("Errors", "ops", "of reconciles", (rate("controller_runtime_reconcile_errors_total", "controller"), "{{controller}}")),
    lines("How long reconciles take", "s", "99 of 100", (f"histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{{{AT}}}[$__rate_interval])))", "{{controller}}")),
    lines("Queue", "none", "keys that are ready", (f"sum by (controller) (workqueue_depth{{{AT}}})", "{{controller}}")),
    lines("Wait in the queue", "s", "99 of 100", (f"histogram_quantile(0.99, sum by (controller, le) (rate(workqueue_queue_duration_seconds_bucket{{{AT}}}[$__rate_interval])))", "{{controller}}")),
    lines("Longest reconcile", "s", "that runs now", (f"max by (controller) (workqueue_longest_running_processor_seconds{{{AT}}})", "{{controller}}")),
    lines("Requests", "reqps", "to the proxy, by code", (rate("rest_client_requests_total", "code, method"), "{{method}} {{code}}")),
    lines("How long answers take", "s", "on average", (mean("rest_client_request_duration_seconds", "verb"), "{{verb}}")),
    lines("Units", "none", "endpoints that are worked on; those that get no credential", (f"sum by (instance, role) (worker_units{{{AT}}})", "{{instance}} {{role}}"), (f"sum by (instance, role) (worker_endpoints_refused{{{AT}}})", "refused {{instance}} {{role}}")),
    lines("Ring", "none", "partitions that a worker has", (f"ring_partitions_owned{{{AT}}}", "{{instance}} {{role}}")),
    lines("Caches", "none", "objects", (f"sum by (role, resource) (reflector_objects{{{AT}}})", "{{role}} {{resource}}")),
    lines("Journal", "bytes", "in use", (f"journal_bytes{{{AT}}}", "{{instance}} {{role}}")),
    lines("Starts", "none", "of a role's process after the first", (f"sum by (instance, role) (worker_role_restarts_total{{{AT}}})", "{{instance}} {{role}}")),
    lines("Messaging: addresses", "none", "by type and state", (f"sum by (type, state) (messaging_addresses{{{AT}}})", "{{type}} {{state}}")),
    lines("Messaging: entities to come", "none", "that components do not have as wanted", (f"sum by (component_kind) (messaging_pending_entities{{{AT}}})", "{{component_kind}}")),
    lines("Messaging: management requests", "ops", "to routers and brokers", (rate("messaging_mgmt_requests_total", "component_kind, op, code"), "{{component_kind}} {{op}} {{code}}")),
])

BOARDS = [OVERVIEW, SHARDS, WATCHES, PROCESSES, TOPOLOGY, WORKERS]

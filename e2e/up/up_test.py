"""`kintsugi up`: files, contexts, shards, restart with all data, orderly end, errors on the command line."""
import calendar
import json
import os
import pathlib
import re
import stat
import shutil
import subprocess
import time
import unittest

import kit


class Up(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)

    def test_files_of_design_section_12(self):
        state = self.installation.state
        for name in ("admin.kubeconfig", "ready", "pki/client-ca.crt", "pki/requestheader-ca.crt", "pki/serving-ca.crt",
                     "run/proxy.pid", "run/root.pid", "run/shard-2.pid", "run/admin.sock", "logs/proxy.log",
                     "shards/root/admin.kubeconfig", "shards/shard-1/data", "proxy/data"):
            self.assertTrue((state / name).exists(), name)
        for key in (state / "pki").glob("*.key"):
            self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600, key)
        self.assertEqual(stat.S_IMODE((state / "admin.kubeconfig").stat().st_mode), 0o600)

    def test_contexts_lead_to_root_and_base(self):
        contexts = self.installation.kubectl("config", "get-contexts", "-o", "name").split()
        self.assertEqual(sorted(contexts), ["base", "root"])
        current = self.installation.kubectl("config", "current-context").strip()
        self.assertEqual(current, "root")
        server = self.installation.kubectl("config", "view", "-o", "jsonpath={.clusters[?(@.name=='root')].cluster.server}")
        self.assertEqual(server, f"https://127.0.0.1:{self.installation.port}/clusters/root")

    def test_shards_carry_region_cloud_and_name(self):
        shards = json.loads(self.installation.kubectl("get", "shards", "-o", "json"))["items"]
        labels = {s["metadata"]["name"]: s["metadata"]["labels"] for s in shards}
        self.assertEqual(labels, {
            "root": {"region": "eu-west-1", "cloud": "aws", "name": "root"},
            "shard-1": {"region": "us-east-1", "cloud": "gcp", "name": "shard-1"},
            "shard-2": {"region": "ap-south-1", "cloud": "azure", "name": "shard-2"}})

    def test_kubectl_get_shards_shows_the_columns(self):
        lines = self.installation.kubectl("get", "shards").splitlines()
        self.assertEqual(lines[0].split(), ["NAME", "REGION", "URL", "EXTERNAL", "URL", "AGE"])
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[1], r"^root\s+eu-west-1\s+https://127\.0\.0\.1:\d+\s+https://127\.0\.0\.1:%d\s+\d+s" %
                         self.installation.port)

    def test_metrics_tell_of_the_process_its_build_and_certificates_that_end(self):
        text = subprocess.run(["curl", "-sS", "--unix-socket", str(self.installation.state / "run/admin.sock"), "http://admin/metrics"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        values = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                self.assertRegex(line, r'^[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? ([0-9.]+(e[+-][0-9]+)?|\+Inf)$')
                series, value = line.rsplit(" ", 1)
                self.assertNotIn(series, values)
                values[series] = float(value)
        documented = set(re.findall(r"^\| `(\w+)` \|", (pathlib.Path(__file__).resolve().parent.parent.parent / "docs/metrics.md").read_text().split("## Shard")[0], re.MULTILINE))
        self.assertEqual(set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)), documented)

        pid = self.installation.pid("proxy")
        resident = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        self.assertAlmostEqual(values["process_resident_memory_bytes"], resident, delta=resident / 5)
        self.assertAlmostEqual(values["process_start_time_seconds"], time.time(), delta=600)
        self.assertGreater(values["process_cpu_seconds_total"], 0)
        self.assertGreater(values["process_open_fds"], 10)
        version = subprocess.run([str(kit.BINARY), "version"], capture_output=True, text=True, check=True).stdout.split()[1]
        self.assertTrue(any(series.startswith(f'kintsugi_build_info{{version="{version}",') and series.endswith('process="proxy"}')
                            for series in values), values)
        for use, name, file in (("serving", "listener.cert_file", "proxy.crt"), ("ca", "authentication.client_ca_file", "client-ca.crt"),
                                ("requestheader", "backend.cert_file", "proxy-requestheader.crt"), ("ca", "backend.ca_file", "serving-ca.crt")):
            shown = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", str(self.installation.pki / file)],
                                   capture_output=True, text=True, check=True).stdout.strip().split("=")[1]
            ends = calendar.timegm(time.strptime(shown, "%b %d %H:%M:%S %Y GMT"))
            series = f'kintsugi_certificate_expiration_timestamp_seconds{{use="{use}",name="{name}"}}'
            self.assertEqual(values[series], ends, series)
        self.assertIn('kintsugi_certificate_expiration_timestamp_seconds{use="client",name="topology.root_kubeconfig"}', values)

    def test_a_second_up_on_the_folder_is_refused(self):
        run = subprocess.run([str(kit.BINARY), "up", "--dir", str(self.installation.state), "--port", str(kit.free_port())],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"is in use by process {self.installation.process.pid}, another `kintsugi up`: end it, or use another --dir", run.stderr)
        self.assertEqual(len(run.stderr.strip().splitlines()), 1)


class UpLifeCycle(unittest.TestCase):
    def test_a_second_start_goes_on_with_all_data(self):
        installation = kit.Installation()
        with installation:
            installation.make_workspace("kept", selector={"region": "us-east-1"})
            installation.client("/clusters/root:kept").must(
                "POST", "/api/v1/namespaces/default/configmaps",
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})
            installation.client().must(
                "POST", "/apis/topology.kcp.io/v1alpha1/partitionsets",
                {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", "metadata": {"name": "s"},
                 "spec": {"dimensions": ["region"]}})
            self.assertEqual(installation.stop(), 0)
            self.assertFalse((installation.state / "ready").exists())
            self.assertEqual(list((installation.state / "run").glob("*.pid")), [])
            installation.start()
            kept = installation.client("/clusters/root:kept").must("GET", "/api/v1/namespaces/default/configmaps/a")
            self.assertEqual(kept["data"], {"k": "v"})
            partitions = installation.client().must("GET", "/apis/topology.kcp.io/v1alpha1/partitions")["items"]
            self.assertEqual(len(partitions), 3)

    def test_a_killed_shard_comes_back_by_itself(self):
        with kit.Installation() as installation:
            before = installation.pid("shard-1")
            installation.kill("shard-1")
            kit.eventually(lambda: installation.pid("shard-1") != before, 10, "a new process")

            def served():
                return installation.client("/shards/shard-1/clusters/root").get("/version").status in (403, 404)

            kit.eventually(served)
            installation.make_workspace("after", selector={"region": "us-east-1"})

    def test_wrong_usage_is_one_clear_line(self):
        for arguments, text, status in (
                (["--shards", "0"], "--shards: must be 1 to 64", 2),
                (["--port", "x"], '--port: "x" is not a port', 2),
                (["--foo"], "unknown option --foo; `kintsugi up --help` lists the options", 2),
                (["--prot", "1"], "unknown option --prot; did you mean --port?", 2),
                (["--por", "1"], "did you mean --port?", 2),
                (["--store", "paper"], '--store: "paper" is not a choice that this version has; known: lmdb', 2),
                (["--wildcard", "some"], '--wildcard: "some" is not a choice that this version has; known: serve, deny', 2),
                (["extra"], 'unexpected argument "extra"', 2),
                (["--dir", "/proc/nowhere"], "/proc/nowhere", 1)):
            run = subprocess.run([str(kit.BINARY), "up", *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, status, arguments)
            self.assertIn(text, run.stderr)
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)

    def test_a_port_in_use_ends_with_one_line(self):
        import socket
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            installation = kit.Installation()
            self.addCleanup(shutil.rmtree, installation.dir)
            installation.options[installation.options.index("--port") + 1] = str(taken.getsockname()[1])
            run = subprocess.run([str(kit.BINARY), "up", *installation.options], capture_output=True, text=True, timeout=60,
                                 check=False)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn("could not start", run.stderr)
            self.assertIn("in use", run.stderr)

    def test_help_lists_every_option(self):
        for command in ("up", "proxy", "shard"):
            run = subprocess.run([str(kit.BINARY), command, "--help"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 0)
            self.assertIn("usage: kintsugi " + command, run.stdout)
        self.assertIn("--regions", subprocess.run([str(kit.BINARY), "up", "--help"], capture_output=True, text=True,
                                                  timeout=60, check=False).stdout)

    def test_a_mistyped_command_or_option_starts_nothing(self):
        for arguments, text, status in (
                (["prxy"], "no such command; did you mean proxy?", 2),
                (["proxy", "--validat"], "unknown option --validat; did you mean --validate?", 1),
                (["proxy", "--config", "/nowhere/proxy.yaml", "--validat"], "did you mean --validate?", 1),
                (["proxy", "--config", "/nowhere/proxy.yaml", "--foo"], "unknown option --foo; ", 1),
                (["shard", "--jion", "/nowhere"], "did you mean --join?", 2),
                (["completion", "csh"], "say one of bash, zsh, fish", 2),
                (["version", "-o", "yaml"], "is neither text nor json", 2)):
            run = subprocess.run([str(kit.BINARY), *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((run.returncode, run.stdout), (status, ""), arguments)
            self.assertIn(text, run.stderr)
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)

    def test_bash_completes_commands_options_and_choices(self):
        script = subprocess.run([str(kit.BINARY), "completion", "bash"], capture_output=True, text=True, timeout=60, check=True).stdout

        def completed(*words):
            """What the shell offers for the last word."""
            ask = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kintsugi; printf "%s\\n" "${COMPREPLY[@]}"'
            run = subprocess.run(["bash", "-c", script + ask, "bash", *words], capture_output=True, text=True, timeout=60, check=True)
            return run.stdout.split()

        self.assertEqual(completed("kintsugi", "s"), ["shard", "support-bundle", "store"])
        self.assertEqual(completed("kintsugi", "up", "--sh"), ["--shards", "--shard-loops"])
        self.assertEqual(completed("kintsugi", "up", "--wildcard", ""), ["serve", "deny"])
        self.assertEqual(completed("kintsugi", "up", "--wildcard", "=", "d"), ["deny"])
        self.assertEqual(completed("kintsugi", "up", "--port", ""), [])
        self.assertEqual(completed("kintsugi", "store", "re"), ["restore", "renew", "rewrite"])
        self.assertEqual(completed("kcp-front-proxy", "--mapping"), ["--mapping-file"])
        self.assertEqual(completed("kintsugi", "proxy", "--config", __file__[:-1]), [__file__])

    def test_answers_as_kcp_where_that_is_chosen(self):
        """R-12 with `deny`: E1."""
        with kit.Installation("--wildcard", "deny", "--consumers", "required", shards=1) as installation:
            refused = installation.client("").get("/clusters/*/api/v1/namespaces")
            self.assertEqual((refused.status, refused.json["reason"]), (403, "Forbidden"))
            self.assertIn('"/clusters/*/api/v1/namespaces": workspace access not permitted', refused.json["message"])
            self.assertIn("consumers: required", (installation.state / "proxy" / "proxy.yaml").read_text())

    @kit.without_sanitizer
    def test_idle_memory_is_small(self):
        with kit.Installation() as installation:
            sizes, own = {}, {}
            for process in ("proxy", "root", "shard-1", "shard-2"):
                status = open(f"/proc/{installation.pid(process)}/status", encoding="utf-8").read()
                # Of files the kernel maps what is in its cache around each page that is used: with a program of 18 MB that varies by 3 MiB.
                sizes[process] = int(status.split("VmRSS:")[1].split()[0]) / 1024
                own[process] = int(status.split("RssAnon:")[1].split()[0]) / 1024
            print("      idle RSS in MiB: " + ", ".join(f"{k} {v:.1f}" for k, v in sizes.items()))
            self.assertLessEqual(own["proxy"], 6)
            self.assertLessEqual(sizes["proxy"], 23)
            for shard in ("root", "shard-1", "shard-2"):
                self.assertLessEqual(sizes[shard], 30 * 1.0486)


if __name__ == "__main__":
    unittest.main()

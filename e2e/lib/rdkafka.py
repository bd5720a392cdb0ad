"""librdkafka by ctypes, as much of it as tests use: a producer, committed offsets, and its mock cluster."""
import ctypes
import ctypes.util
import unittest

PRODUCER, CONSUMER = 0, 1
_TOPIC, _PARTITION, _VALUE, _KEY, _MSGFLAGS, _HEADER = 1, 3, 4, 5, 7, 9
_COPY = 2
CHARS, PTR = ctypes.c_char_p, ctypes.c_void_p


class _Mem(ctypes.Structure):
    _fields_ = [("ptr", PTR), ("size", ctypes.c_size_t)]


class _Header(ctypes.Structure):
    _fields_ = [("name", CHARS), ("val", PTR), ("size", ctypes.c_ssize_t)]


class _Union(ctypes.Union):
    _fields_ = [("cstr", CHARS), ("i", ctypes.c_int), ("i32", ctypes.c_int32), ("mem", _Mem), ("header", _Header), ("pad", ctypes.c_char * 64)]


class _Argument(ctypes.Structure):
    _fields_ = [("vtype", ctypes.c_int), ("u", _Union)]


class _Partition(ctypes.Structure):
    _fields_ = [("topic", CHARS), ("partition", ctypes.c_int32), ("offset", ctypes.c_int64), ("metadata", PTR), ("metadata_size", ctypes.c_size_t),
                ("opaque", PTR), ("err", ctypes.c_int), ("private", PTR)]


class _List(ctypes.Structure):
    _fields_ = [("cnt", ctypes.c_int), ("size", ctypes.c_int), ("elems", ctypes.POINTER(_Partition))]


def library():
    name = ctypes.util.find_library("rdkafka")
    if name is None:
        raise unittest.SkipTest("no librdkafka on this machine")
    lib = ctypes.CDLL(name)
    lib.rd_kafka_conf_new.restype = lib.rd_kafka_new.restype = PTR
    lib.rd_kafka_conf_set.argtypes = [PTR, CHARS, CHARS, CHARS, ctypes.c_size_t]
    lib.rd_kafka_new.argtypes = [ctypes.c_int, PTR, CHARS, ctypes.c_size_t]
    lib.rd_kafka_flush.argtypes = [PTR, ctypes.c_int]
    lib.rd_kafka_outq_len.argtypes = lib.rd_kafka_destroy.argtypes = [PTR]
    lib.rd_kafka_produceva.argtypes = [PTR, ctypes.POINTER(_Argument), ctypes.c_size_t]
    lib.rd_kafka_produceva.restype = PTR
    lib.rd_kafka_error_string.argtypes, lib.rd_kafka_error_string.restype = [PTR], CHARS
    lib.rd_kafka_topic_partition_list_new.restype = ctypes.POINTER(_List)
    lib.rd_kafka_topic_partition_list_add.argtypes = [ctypes.POINTER(_List), CHARS, ctypes.c_int32]
    lib.rd_kafka_topic_partition_list_add.restype = ctypes.POINTER(_Partition)
    lib.rd_kafka_topic_partition_list_destroy.argtypes = [ctypes.POINTER(_List)]
    lib.rd_kafka_committed.argtypes = [PTR, ctypes.POINTER(_List), ctypes.c_int]
    lib.rd_kafka_commit.argtypes = [PTR, ctypes.POINTER(_List), ctypes.c_int]
    return lib


class Handle:
    """A client of Kafka with some settings."""

    def __init__(self, kind, **settings):
        self.lib = library()
        conf, why = self.lib.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
        for name, value in {"log_level": "0", **settings}.items():
            assert self.lib.rd_kafka_conf_set(conf, name.replace("_", "." if name != "log_level" else "_").encode(), str(value).encode(), why, 512) == 0, why.value
        self.handle = self.lib.rd_kafka_new(kind, conf, why, 512)
        assert self.handle, why.value

    def close(self):
        if self.handle:
            self.lib.rd_kafka_destroy(self.handle)
            self.handle = None


class Producer(Handle):
    def __init__(self, bootstrap):
        super().__init__(PRODUCER, bootstrap_servers=bootstrap, message_max_bytes=20 << 20, linger_ms=0, message_timeout_ms=60000)

    def send(self, topic, value, key=None, partition=None, headers=()):
        """One record; bytes, and None for what is null. flush() waits for all."""
        arguments, kept = [], []

        def add(kind):
            arguments.append(_Argument(vtype=kind))
            return arguments[-1].u

        def memory(data):
            kept.append(ctypes.create_string_buffer(data, len(data)))
            return ctypes.cast(kept[-1], PTR)

        add(_TOPIC).cstr = topic.encode()
        add(_MSGFLAGS).i = _COPY
        if partition is not None:
            add(_PARTITION).i32 = partition
        for kind, data in ((_VALUE, value), (_KEY, key)):
            if data is not None:
                add(kind).mem = _Mem(memory(data), len(data))
        for name, data in headers:
            add(_HEADER).header = _Header(name.encode(), memory(data) if data is not None else None, len(data or b""))
        error = self.lib.rd_kafka_produceva(self.handle, (_Argument * len(arguments))(*arguments), len(arguments))
        assert not error, self.lib.rd_kafka_error_string(error)

    def flush(self, seconds=60):
        self.lib.rd_kafka_flush(self.handle, seconds * 1000)
        assert self.lib.rd_kafka_outq_len(self.handle) == 0, "records are not taken"

    def put(self, topic, value, **more):
        self.send(topic, value, **more)
        self.flush()


class Group(Handle):
    """Offsets of a group, by a client that does not join it."""

    def __init__(self, bootstrap, group):
        super().__init__(CONSUMER, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit="false")

    def _list(self, topic, offsets):
        out = self.lib.rd_kafka_topic_partition_list_new(len(offsets))
        for partition, offset in offsets.items():
            self.lib.rd_kafka_topic_partition_list_add(out, topic.encode(), partition).contents.offset = offset
        return out

    def committed(self, topic, partitions):
        """{partition: offset}; of one without an offset there is none."""
        asked = self._list(topic, dict.fromkeys(range(partitions), -1001))
        error = self.lib.rd_kafka_committed(self.handle, asked, 10000)
        found = {one.partition: one.offset for one in asked.contents.elems[: asked.contents.cnt] if one.offset >= 0}
        self.lib.rd_kafka_topic_partition_list_destroy(asked)
        return found if error == 0 else {}

    def commit(self, topic, offsets):
        asked = self._list(topic, offsets)
        error = self.lib.rd_kafka_commit(self.handle, asked, 0)
        self.lib.rd_kafka_topic_partition_list_destroy(asked)
        assert error == 0, error


class MockCluster(Handle):
    def __init__(self, brokers):
        super().__init__(PRODUCER)
        lib = self.lib
        lib.rd_kafka_mock_cluster_new.argtypes, lib.rd_kafka_mock_cluster_new.restype = [PTR, ctypes.c_int], PTR
        lib.rd_kafka_mock_cluster_bootstraps.argtypes, lib.rd_kafka_mock_cluster_bootstraps.restype = [PTR], CHARS
        for name, arguments in {"topic_create": [CHARS, ctypes.c_int, ctypes.c_int], "topic_set_error": [CHARS, ctypes.c_int],
                                "broker_set_down": [ctypes.c_int32], "broker_set_up": [ctypes.c_int32],
                                "broker_set_rtt": [ctypes.c_int32, ctypes.c_int],
                                "partition_set_leader": [CHARS, ctypes.c_int32, ctypes.c_int32],
                                "coordinator_set": [CHARS, CHARS, ctypes.c_int32],
                                "push_request_errors_array": [ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)]}.items():  # fmt: skip
            getattr(lib, "rd_kafka_mock_" + name).argtypes = [PTR, *arguments]
        self.cluster = lib.rd_kafka_mock_cluster_new(self.handle, brokers)

    def bootstrap(self):
        return self.lib.rd_kafka_mock_cluster_bootstraps(self.cluster).decode()

    def call(self, name, *arguments):
        return getattr(self.lib, "rd_kafka_mock_" + name)(self.cluster, *arguments)

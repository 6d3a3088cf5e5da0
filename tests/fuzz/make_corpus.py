"""Writes the seed inputs of the fuzz targets into tests/fuzz/corpus. Needs Pillow."""
import gzip
import io
import json
import shutil
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).resolve().parent / "corpus"
GOLDEN = FOLDER.parent.parent / "golden" / "pth"


def write(target, name, data):
    (FOLDER / target).mkdir(parents=True, exist_ok=True)
    (FOLDER / target / name).write_bytes(data)


def make_idx():
    images = struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 4) + bytes(range(24))
    labels = struct.pack(">4BI", 0, 0, 8, 1, 5) + bytes(5)
    write("idx", "images", images)
    write("idx", "labels", labels)
    write("idx", "images.gz", gzip.compress(images, mtime=0))
    write("idx", "labels.gz", gzip.compress(labels, mtime=0))


def make_safetensors():
    header = {"__metadata__": {"epoch": "3"}}
    data = b""
    for dtype, size in [("F64", 8), ("F32", 4), ("F16", 2), ("BF16", 2), ("I64", 8), ("I32", 4), ("U8", 1),
                        ("BOOL", 1)]:
        header[dtype.lower()] = {"dtype": dtype, "shape": [2, 1], "data_offsets": [len(data), len(data) + 2 * size]}
        data += bytes(2 * size)
    header["empty"] = {"dtype": "F32", "shape": [3, 0], "data_offsets": [len(data), len(data)]}
    text = json.dumps(header).encode()
    write("safetensors", "each_dtype", struct.pack("<Q", len(text)) + text + data)
    checksums = {"__metadata__": f"{zlib.crc32(b'epoch%c3%c' % (0, 0)):08x}", "x": f"{zlib.crc32(bytes(4)):08x}"}
    header = {"__metadata__": {"epoch": "3", "tandem.crc32": json.dumps(checksums, separators=(",", ":"))},
              "x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    write("safetensors", "checksums", struct.pack("<Q", len(text)) + text + bytes(4))
    write("safetensors", "nothing", struct.pack("<Q", 2) + b"{}")


def make_pth():
    for name in ["zip", "legacy", "checkpoint"]:
        write("pth", name, (GOLDEN / f"{name}.pth").read_bytes())
    for name in ["zip", "checkpoint"]:
        with zipfile.ZipFile(GOLDEN / f"{name}.pth") as archive:
            write("pickle", name, archive.read(f"{name}/data.pkl"))


def make_image():
    picture = Image.frombytes("RGB", (9, 7), bytes(i * 7 % 256 for i in range(9 * 7 * 3)))
    palette = picture.quantize(8)
    for name, image, options in [
        ("rgb.png", picture, {}), ("palette.png", palette, {}), ("grey.png", picture.convert("L"), {}),
        ("alpha.png", picture.convert("RGBA"), {}), ("bits.png", picture.convert("1"), {}),
        ("baseline.jpg", picture, {"quality": 60}), ("progressive.jpg", picture, {"quality": 60, "progressive": True}),
        ("grey.jpg", picture.convert("L"), {}), ("rgb.bmp", picture, {}), ("palette.bmp", palette, {}),
        ("rgb.ppm", picture, {}),
    ]:
        data = io.BytesIO()
        image.save(data, format={"jpg": "JPEG", "ppm": "PPM"}.get(name[-3:], name[-3:].upper()), **options)
        write("image", name, data.getvalue())
        if name.endswith("jpg"):
            write("jpeg", name, data.getvalue())
        # A file without Huffman tables. libjpeg-turbo leaves files that begin like this to stb_image.
        if name == "baseline.jpg":
            without_tables = b"\xff" + data.getvalue().replace(b"\xff\xc4", b"\xff\xe4")
            write("image", "no_tables.jpg", without_tables)
            write("jpeg", "no_tables.jpg", without_tables)
    # Large enough for several blocks in each direction, some of which are left out.
    picture = picture.resize((60, 40))
    for name, image, options in [
        ("420.jpg", picture, {"quality": 30}), ("444.jpg", picture, {"quality": 30, "subsampling": 0}),
        ("progressive_420.jpg", picture, {"quality": 30, "progressive": True}),
        ("cmyk.jpg", picture.convert("CMYK"), {}),
        ("restarts.jpg", picture, {"quality": 30, "restart_marker_blocks": 2}),
    ]:
        data = io.BytesIO()
        image.save(data, format="JPEG", **options)
        write("jpeg", name, data.getvalue())


def make_mask():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def png(width, height, bits, colour_type, interlace, rows):
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, interlace))
        palette = chunk(b"PLTE", bytes(3 << bits)) if colour_type == 3 else b""
        return b"\x89PNG\r\n\x1a\n" + header + palette + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")

    for bits in [1, 2, 4, 8]:
        write("mask", f"palette{bits}.png", png(5, 3, bits, 3, 0, bytes(1 + (5 * bits + 7) // 8) * 3))
    write("mask", "grey.png", png(5, 3, 8, 0, 0, bytes(6) * 3))
    # The pixels of each of PNG's seven Adam7 passes: first column, column step, first row, row step.
    passes = [(0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2)]
    rows = b"".join(bytes(1 + len(range(x, 9, dx))) * len(range(y, 7, dy)) for x, dx, y, dy in passes if x < 9)
    write("mask", "interlaced.png", png(9, 7, 8, 3, 1, rows))


def make_archive():
    def entry(name, data=b"", **attributes):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        for key, value in attributes.items():
            setattr(info, key, value)
        return info, data

    def tar(*entries, form=tarfile.USTAR_FORMAT):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=form) as archive:
            for info, data in entries:
                archive.addfile(info, io.BytesIO(data))
            size = archive.offset
        return file.getvalue()[:size + 1024]

    folder = entry("folder/", type=tarfile.DIRTYPE, mode=0o755)
    files = tar(folder, entry("folder/a", b"one"), entry("b", b"two" * 300))
    write("archive", "files.tar", files)
    write("archive", "files.tar.gz", gzip.compress(files, mtime=0))
    write("archive", "gnu_long_name.tar", tar(entry("d/" * 60 + "x", b"x"), form=tarfile.GNU_FORMAT))
    write("archive", "pax.tar", tar(entry("\u00e4" * 60, b"x", pax_headers={"SCHILY.xattr.user.a": "b"}),
                                    form=tarfile.PAX_FORMAT))
    write("archive", "leads_out.tar", tar(entry("folder/../../../c", b"x")))
    write("archive", "absolute.tar", tar(entry("/dev/shm/tandem-fuzz-escaped", b"x")))
    write("archive", "links.tar", tar(entry("a", b"x"), entry("b", type=tarfile.LNKTYPE, linkname="a"),
                                      entry("c", type=tarfile.SYMTYPE, linkname="/")))
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s", "GNU.sparse.realsize": "4096"}
    parts = b"1\n1024\n512\n".ljust(512, b"\0") + b"y" * 512
    write("archive", "sparse.tar", tar(entry("s", parts, pax_headers=sparse), form=tarfile.PAX_FORMAT))
    for name, method in [("stored.zip", zipfile.ZIP_STORED), ("deflated.zip", zipfile.ZIP_DEFLATED)]:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            for inner, data in [("folder/", b""), ("folder/a", b"one"), ("b", b"two" * 300)]:
                archive.writestr(zipfile.ZipInfo(inner), data, method)
        write("archive", name, file.getvalue())


def make_file_store():
    def record(key, value):
        return struct.pack("<I", len(key)) + key + struct.pack("<I", len(value)) + value

    log = record(b"refcount/", b"1") + record(b"/count", b"41") + record(b"/key", b"value")
    write("file_store", "log", log)
    write("file_store", "deleted", log + record(b"-/key", b"") + record(b"cleanup/", b"1"))
    write("file_store", "unfinished", log + record(b"/key", b"more")[:-2])
    write("file_store", "two_writers", log[:-3] + b"\xff\xff" + log[-3:] + record(b"/count", b"x"))
    write("file_store", "too_large", struct.pack("<I", 4) + b"/key" + struct.pack("<I", 0xffffffff))


def make_checkpoint():
    metadata = {"format": "1", "program": "fuzz", "epoch": "1", "step": "2", "position": "3", "seed": "4",
                "world_size": "2", "batch_size": "8", "accumulate": "1", "before": "0", "dataset_size": "64",
                "options": "--lr=0.1", "best_of": "", "best": "0x0p+0 -1 0", "kept_steps": "",
                "generator": "mt19937 *", "generator_now": "mt19937 *", "losses": "0x1.8p+1 0x1p-3 "}
    arrays = ["model/weight:f:1 2", "optimizer/weight/exp_avg:f:1 2", "optimizer/weight/exp_avg_sq:f:1 2",
              "optimizer/weight/step:i:3", "optimizer/grad_scaler/scale:d:65536",
              "optimizer/grad_scaler/growth_factor:d:2", "optimizer/grad_scaler/backoff_factor:d:0.5",
              "optimizer/grad_scaler/growth_interval:d:2000", "optimizer/grad_scaler/_growth_tracker:d:5",
              "ddp/gradient_order:i:0", "rank-0/generator:u:mt19937 *", "rank-0/generator_now:u:mt19937 *",
              "rank-0/hook/step:i:7", "rank-0/hook/generator:u:mt19937 *", "rank-1/generator:u:mt19937 *"]
    lines = [f"{key}={text}" for key, text in metadata.items()]
    whole = "\n".join(lines + arrays) + "\n"
    write("checkpoint", "whole", whole.encode())
    write("checkpoint", "not_a_count", whole.replace("tracker:d:5", "tracker:d:nan").encode())
    write("checkpoint", "large_count", whole.replace("step:i:7", "step:d:1e30").encode())


def make_statuses():
    failure = {"rank": 1, "host": "there", "pid": 7, "has_exited": False, "status": 11, "was_stopping": False,
               "message": "it broke", "time_ns": 1700000000000000000, "last_lines": ["a", "b"], "hint": ""}
    same = dict(failure, rank=2, message=0, has_exited=True, status=1, last_lines=[])
    status = {"id": 1, "node_rank": -1, "host": "there", "pid": 6, "processes": 2, "role": "default", "max_nodes": 2,
              "serves_store": False, "state": 0, "generation": -1, "has_failed": False, "failures": [],
              "ended_well": [], "stopped_by": 0}
    write("statuses", "waiting", json.dumps(status).encode())
    ended = dict(status, state=2, generation=0, has_failed=True, failures=[failure, same], ended_well=[3])
    write("statuses", "ended", json.dumps(ended).encode())
    write("statuses", "left", json.dumps(dict(status, state=3, generation=0, stopped_by=15)).encode())
    # Values that once overflowed: the time minus a second, a rank's neighbour, 128 plus a signal.
    first = dict(failure, message="", time_ns=-2**63)
    write("statuses", "no_time", json.dumps(dict(ended, failures=[first, same])).encode())
    write("statuses", "last_rank", json.dumps(dict(ended, ended_well=[2**31 - 1] * 2)).encode())
    write("statuses", "signal", json.dumps(dict(status, serves_store=True, state=3, stopped_by=2**31 - 1)).encode())
    assignment = {"action": 1, "generation": 1, "restarts": 1, "nodes": [[0, 0, 2, 0, 4], [1, 2, 2, 2, 4]],
                  "failures": [failure, same], "ended_early": [3], "reason": "", "exit_code": 0}
    write("statuses", "assignment", json.dumps(assignment).encode())
    write("statuses", "report", json.dumps({"message": "it broke"}).encode())
    for name, times in [("torch", {"timestamp": "1700000000"}), ("ours", {"timestamp_ns": "1700000000000000000"}),
                        ("late", {"timestamp": 2**63 - 1}), ("later", {"timestamp": 1e300})]:
        extra = {"message": "it broke", "extraInfo": {"py_callstack": "", **times}}
        write("statuses", f"report_{name}", json.dumps({"message": extra}).encode())


def make_lock():
    owner = {"host": "there", "pid": 7, "started": 1700000000, "launcher": 6, "run_id": "run", "restarts": 1,
             "job": "0a1b2c3d"}
    write("lock", "owner", json.dumps(owner).encode())
    write("lock", "later_start", json.dumps(dict(owner, restarts=5)).encode())
    write("lock", "other_job", json.dumps(dict(owner, job="")).encode())
    write("lock", "no_time", json.dumps(dict(owner, started=-2**63, pid=1e300)).encode())
    write("lock", "terminal", json.dumps(dict(owner, host="\x1b[2J")).encode())
    write("lock", "cut", json.dumps(owner).encode()[:40])
    write("lock", "empty", b"")


def make_store_client():
    def text(value):
        return struct.pack("<Q", len(value)) + value

    def number(value):
        return struct.pack("<q", value)

    raw, raw_with_token, greets, greets_without_proof, greets_with_proof = range(5)

    def case(name, mode, calls, replies):
        write("store_client", name, bytes([mode, len(calls)]) + bytes(calls) + replies)

    case("greeting", raw, [0], struct.pack("<I", 1) + number(1))
    case("nonce", raw_with_token, [0], text(b"0" * 32) + struct.pack("<I", 1) + number(1))
    case("short_nonce", raw_with_token, [0], text(b"0"))
    for name, mode in [("open", greets), ("without_proof", greets_without_proof), ("with_proof", greets_with_proof)]:
        case(name, mode, [2, 1, 4, 5, 6, 9], number(5) + b"\0" + text(b"value") + text(b"old") + number(1) + b"\0" +
             text(b"/key"))
    case("lists", greets, [10, 12, 13], text(b"a") + text(b"b") + number(2) + number(2) + text(b"/x") + text(b"y"))
    case("queue", greets, [14, 16, 15], number(1) + b"\0" + number(0) + b"\0" + number(1) + text(b"item"))
    case("waits", greets, [7, 8, 17], b"\0\0\0")
    case("canceled", greets, [8, 17], b"\1\1\1\0\1")


def make_nodelist():
    for i, text in enumerate(["host", "a[01-03,07],b5,r[1-2]n[1-4]-ib", "node[001-128]", "4(x2),3", "1,2(x3)",
                              "a,b,c"]):
        write("nodelist", str(i), text.encode())


def make_store():
    def text(value):
        return struct.pack("<Q", len(value)) + value

    def keys(*values):
        return struct.pack("<Q", len(values)) + b"".join(values)

    def number(value):
        return struct.pack("<q", value)

    hello = b"\0" + struct.pack("<I", 0x3C85F7CE)
    key, value = text(b"/key"), text(b"value")
    queries = [
        b"\1" + key + value, b"\2" + key + value + value, b"\3" + key, b"\4" + text(b"/count") + number(5),
        b"\5" + keys(key), b"\6" + keys(key), b"\7", b"\x08" + key, b"\x09" + key + value, b"\x0a" + keys(key, key),
        b"\x0b" + struct.pack("<Q", 1) + key + value, b"\x0c", b"\x0d" + struct.pack("<I", 7), b"\x0e" + key + value,
        b"\x0f" + key, b"\x10" + key, b"\x11",
    ]
    write("store", "each_query", hello + b"".join(queries))
    for i, query in enumerate(queries):
        write("store", f"query{i + 1:02}", hello + query)
    barrier = b"\x12" + text(b"/here") + number(2)
    write("store", "barrier", b"\xff\0" + hello + barrier + b"\xff\1" + hello + barrier)
    write("store", "wait",
          b"\xff\0" + hello + b"\6" + keys(text(b"/x")) + b"\xff\1" + hello + b"\1" + text(b"/x") + value)
    write("store", "queue", b"\xff\0" + hello + b"\x0f" + key + b"\xff\1" + hello + b"\x0e" + key + value)
    write("store", "will", hello + b"\2" + text(b"tandem/will") + key + text(b""))


def make_flight():
    def entry(number, state, started, ended):
        return struct.pack("<QQqqqBBBBHHiI6q88s", number, number, 100 * number, started, ended, state, 1, 0, 0, 0, 1, 0,
                           1, 4, 0, 0, 0, 0, 0, b"gradient bucket 2")

    def record(rank, entries):
        header = struct.pack("<8sIIIIiiiIqqqQII128s64s1024s", b"TANDMFR", 1, 4, 9536, 192, rank, 2, 99, 0,
                             1700000000000000000, 50, 900, len(entries), 1, 0, b"host", b"job", b"")
        groups = struct.pack("<124si", b"gloo of ranks 0,1", 2) + bytes(63 * 128 + 48)
        header += groups
        return header + b"".join(entries) + bytes(192 * (4 - len(entries)))

    first = record(0, [entry(1, 2, 110, 150), entry(2, 1, 210, 0)])
    second = record(1, [entry(1, 2, 120, 150)])
    write("flight", "behind", struct.pack("<H", len(first)) + first + second)
    other = record(1, [entry(1, 2, 120, 150), entry(2, 3, 220, 280)])
    write("flight", "together", struct.pack("<H", len(first)) + first + other)


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    for make in [make_idx, make_safetensors, make_pth, make_image, make_mask, make_archive, make_file_store,
                 make_checkpoint, make_flight, make_statuses, make_lock, make_store_client, make_nodelist, make_store]:
        make()

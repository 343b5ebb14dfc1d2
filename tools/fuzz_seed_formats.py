"""The formats that the fuzzers' seeds are written in: a tokenizer.json and its parts, GGUF files, safetensors files,
configurations, run files."""
import json
import sqlite3
import struct

# ---- Parts of a tokenizer.json, each with a text ---------------------------------------

BPE = {"type": "BPE", "unk_token": "u", "vocab": {"u": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}


def split(behavior, pattern, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def regex(source, text="ab 12 ab"):
    return {"pre_tokenizer": split("Isolated", {"Regex": source})}, text


def normalizer(text, *kinds):
    return {"normalizer": {"type": "Sequence", "normalizers": [{"type": k} for k in kinds]}}, text


def metaspace(**fields):
    return {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", **fields}}, "ab ab"


def added(*tokens, **more):
    return {"added_tokens": [{**FLAGS, **t} for t in tokens], **more}, "a <x> b"


def template(*single):
    known = {"a": {"id": "a", "ids": [1], "tokens": ["a"]}}
    return {"post_processor": {"type": "TemplateProcessing", "single": list(single), "special_tokens": known}}, "abb"


# ---- GGUF files ------------------------------------------------------------------------

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMS = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q", I64: "<q", F64: "<d"}


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind, content):
    if kind == STRING:
        return string(content)
    if kind == ARRAY:
        item, entries = content
        return struct.pack("<IQ", item, len(entries)) + b"".join(value(item, e) for e in entries)
    return struct.pack(FORMS[kind], content)


def gguf(notes, tensors=()):
    """notes: (key, kind, value); tensors: (name, shape, type, bytes)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(notes))
    for key, kind, content in notes:
        out += string(key) + struct.pack("<I", kind) + value(kind, content)
    data = b""
    for name, shape, kind, raw in tensors:
        out += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    return out + b"\0" * (-len(out) % 32) + data if tensors else out


def words(model, tokens, *more, kinds=None):
    t = "tokenizer.ggml."
    notes = [(t + "model", STRING, model), (t + "tokens", ARRAY, (STRING, tokens))]
    notes += [(t + "token_type", ARRAY, (I32, kinds))] if kinds else []
    return gguf(notes + [(t + key, kind, content) for key, kind, content in more])


# ---- safetensors files -----------------------------------------------------------------

SIZES = {"F64": ("d", 8), "F32": ("f", 4), "I64": ("q", 8), "U8": ("B", 1)}


def pack(dtype, numbers):
    if dtype in SIZES:
        return struct.pack(f"<{len(numbers)}{SIZES[dtype][0]}", *numbers)
    if dtype == "F16":
        return struct.pack(f"<{len(numbers)}e", *numbers)
    return b"".join(struct.pack("<f", x)[2:] for x in numbers)  # BF16


def safetensors(tensors, notes=None):
    header, data = ({"__metadata__": notes} if notes is not None else {}), b""
    for name, (dtype, shape, numbers) in tensors.items():
        raw = pack(dtype, numbers)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


# ---- Configurations --------------------------------------------------------------------

LLAMA = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
         "rms_norm_eps": 1e-6, "hidden_act": "silu", "max_position_embeddings": 64, "vocab_size": 9}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
SMOL = {**LLAMA, "model_type": "smollm3", "num_key_value_heads": 1}
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [1.0, 2.0], "attention_factor": 1.0}
VIT = {"model_type": "vit", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
       "image_size": [8, 16], "patch_size": [4, 4], "num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": 1e-6}  # fmt: skip
CLIP = {"model_type": "clip", "text_config": {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}}


def gguf_config(name, *more, tensors=()):
    notes = [("general.architecture", STRING, name)]
    for key, kind, content in (("block_count", U32, 2), ("embedding_length", U32, 8), ("feed_forward_length", U32, 8), *more):
        notes.append((f"{name}.{key}", kind, content))
    return gguf(notes, tensors)


EPS, HEADS = ("attention.layer_norm_rms_epsilon", F32, 1e-6), ("attention.head_count", U32, 2)

# ---- Run files -------------------------------------------------------------------------

HEAD = {"id": 1, "schema": 1, "version": "0.1.0", "created": "2026-01-01T00:00:00Z", "command": "measure",
        "command_line": "lipscope measure", "settings": '{"seed":3}'}  # fmt: skip


def run_file(*rows, program=0x4C697053, schema=1, more="", **head):
    """A database as small as one can be, with rows as JSON or as they are.  None: no entry."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(f"PRAGMA page_size = 512; PRAGMA application_id = {program}; PRAGMA user_version = {schema}; VACUUM;"
                     f"CREATE TABLE run ({','.join(HEAD)}); CREATE TABLE cells (key, created, version, row); {more}")  # fmt: skip
    head = {**HEAD, **head}
    if head["id"]:
        db.execute(f"INSERT INTO run VALUES ({','.join('?' * len(head))})", list(head.values()))
    for k, row in enumerate(rows):
        text = json.dumps(row, separators=(",", ":")) if isinstance(row, dict) else row
        db.execute("INSERT INTO cells VALUES (?, ?, ?, ?)", (f"n={k}", HEAD["created"], HEAD["version"], text))
    raw = bytearray(db.serialize())
    raw[96:100] = bytes(4)  # the SQLite that wrote it: any
    return bytes(raw)

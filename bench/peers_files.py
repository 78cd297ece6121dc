# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""The files that bench/peers.py compares: the same weights as .litertlm bundles and as GGUF.

GGUF files are written tensor by tensor, in bands of rows, so memory does not depend on the size of the model. `--pure`
as llama-quantize means it: every matrix has the one type, the embedding and the head too; norms stay float32.
"""
import json
import os
import pathlib
import re
import struct

import gguf
import numpy as np

BAND_VALUES = 4 << 20
TYPES = {"q4_0": (gguf.GGMLQuantizationType.Q4_0, gguf.LlamaFileType.MOSTLY_Q4_0),
         "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0)}
F32 = gguf.GGMLQuantizationType.F32
LAYER_NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
               "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
               "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
               "mlp.down_proj": "ffn_down"}
OTHER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


class Tensor:
    """A matrix or vector of a source. rows(begin, end) gives float32 rows in the order that GGUF stores."""

    def __init__(self, name, shape, rows):
        self.name = name
        self.shape = tuple(int(d) for d in shape)  # [rows, columns] or [values]
        self.rows = rows

    @property
    def is_matrix(self):
        return len(self.shape) == 2


def gguf_name(name):
    """'model.layers.3.mlp.up_proj.weight' -> 'blk.3.ffn_up.weight'."""
    base, kind = name.rsplit(".", 1)
    found = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", base)
    part = f"blk.{found[1]}.{LAYER_NAMES[found[2]]}" if found else OTHER_NAMES[base]
    return f"{part}.{kind}"


def rope_rows(num_rows, heads):
    """Source row of each GGUF row of q or k: the two halves of a head interleaved, as llama.cpp turns pairs."""
    half = num_rows // heads // 2
    return np.arange(num_rows).reshape(heads, 2, half).swapaxes(1, 2).reshape(num_rows)


def bf16_to_float(values):
    return (values.astype(np.uint32) << 16).view(np.float32)


def to_float(values, dtype):
    return bf16_to_float(values) if dtype == "BF16" else values.astype(np.float32)


def safetensors_entries(path):
    """{name: (dtype, shape, memory map of the values)} of one shard."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kinds = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32}
        if entry["dtype"] not in kinds:
            raise SystemExit(f"{path}: {name}: dtype: found {entry['dtype']}, expected one of {', '.join(kinds)}")
        begin = 8 + size + entry["data_offsets"][0]
        values = np.memmap(path, dtype=kinds[entry["dtype"]], mode="r", offset=begin, shape=tuple(entry["shape"]))
        out[name] = (entry["dtype"], entry["shape"], values)
    return out


def checkpoint_tensors(folder, config):
    heads = {"self_attn.q_proj.weight": config["num_attention_heads"],
             "self_attn.k_proj.weight": config["num_key_value_heads"]}
    out = []
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        for name, (dtype, shape, values) in safetensors_entries(path).items():
            count = next((n for end, n in heads.items() if name.endswith(end)), None)
            order = rope_rows(shape[0], count) if count else None

            def rows(begin, end, values=values, dtype=dtype, order=order):
                return to_float(values[begin:end] if order is None else values[order[begin:end]], dtype)

            out.append(Tensor(gguf_name(name), shape, rows))
    return out


def byte_pieces():
    """The 256 pieces of a byte-level tokenizer, in the order of the bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    code, out = 256, []
    for byte in range(256):
        if byte in printable:
            out.append(chr(byte))
        else:
            out.append(chr(code))
            code += 1
    return out


def checkpoint_pieces(folder, vocab):
    """The checkpoint's own pieces, then padding up to the vocabulary; types as GGUF counts them; merges.

    A GGUF needs merges. The generated tokenizer has none, so a piece "zq" of its own comes first in the padding.
    """
    tokenizer = json.loads((pathlib.Path(folder) / "tokenizer.json").read_text())
    model = tokenizer["model"]
    special = {t["id"] for t in tokenizer.get("added_tokens", [])}
    pieces = [None] * vocab
    for piece, number in model["vocab"].items():
        pieces[number] = piece
    for token in tokenizer.get("added_tokens", []):
        pieces[token["id"]] = token["content"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    free = [i for i, piece in enumerate(pieces) if piece is None]
    if not merges:
        if not free:
            raise SystemExit(f"{folder}/tokenizer.json: no merges and no room for a piece, so no GGUF can hold it")
        pieces[free.pop(0)] = "zq"
        merges = ["z q"]
    for number in free:
        pieces[number] = f"[PAD{number}]"
    unused = set(free)
    types = [gguf.TokenType.CONTROL if i in special else
             gguf.TokenType.UNUSED if i in unused else gguf.TokenType.NORMAL for i in range(vocab)]
    return pieces, types, merges


def add_checkpoint_metadata(writer, folder, config):
    writer.add_name(pathlib.Path(folder).name)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    pieces, types, merges = checkpoint_pieces(folder, config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(pieces)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    eos = config["eos_token_id"]
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(eos[-1] if isinstance(eos, list) else eos)
    writer.add_add_bos_token(False)
    template = pathlib.Path(folder) / "chat_template.jinja"
    if template.exists():
        writer.add_chat_template(template.read_text())


def write_tensors(writer, tensors, kind):
    for tensor in tensors:
        to = kind if tensor.is_matrix else F32
        shape = gguf.quant_shape_to_byte_shape(tensor.shape, to) if tensor.is_matrix else tensor.shape
        dtype = np.dtype(np.uint8 if tensor.is_matrix else np.float32)
        writer.add_tensor_info(tensor.name, shape, dtype, int(np.prod(shape)) * dtype.itemsize, raw_dtype=to)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    file = writer.fout[0]
    writer.write_padding(file, file.tell())
    for tensor in tensors:
        if tensor.is_matrix:
            band = max(1, BAND_VALUES // tensor.shape[1])
            for begin in range(0, tensor.shape[0], band):
                gguf.quantize(tensor.rows(begin, min(begin + band, tensor.shape[0])), kind).tofile(file)
        else:
            np.ascontiguousarray(tensor.rows(0, tensor.shape[0]), np.float32).tofile(file)
        writer.write_padding(file, file.tell())
    writer.close()


def convert_checkpoint(folder, out, kind):
    """Writes the GGUF of a Llama checkpoint folder; kind is 'q4_0' or 'q8_0'."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    if config["model_type"] != "llama":
        raise SystemExit(f"{folder}/config.json: model_type: found {config['model_type']}, expected llama")
    part = pathlib.Path(f"{out}.part")
    writer = gguf.GGUFWriter(part, "llama")
    add_checkpoint_metadata(writer, folder, config)
    finish(writer, checkpoint_tensors(folder, config), part, out, kind)


def finish(writer, tensors, part, out, kind):
    """A name without .part is a whole file."""
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_file_type(TYPES[kind][1])
    write_tensors(writer, tensors, TYPES[kind][0])
    os.replace(part, out)


def requantize(source, out, kind):
    """The same model with every matrix as q4_0 or q8_0; metadata is copied."""
    reader = gguf.GGUFReader(source)
    part = pathlib.Path(f"{out}.part")
    writer = gguf.GGUFWriter(part, reader.fields["general.architecture"].contents())
    skip = {"general.architecture", "general.quantization_version", "general.file_type"}
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in skip:
            continue
        is_array = field.types[0] == gguf.GGUFValueType.ARRAY
        writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if is_array else None)
    tensors = []
    for tensor in reader.tensors:
        shape = [int(d) for d in reversed(tensor.shape)]

        def rows(begin, end, tensor=tensor):
            return gguf.dequantize(tensor.data[begin:end], tensor.tensor_type)

        tensors.append(Tensor(tensor.name, shape, rows))
    finish(writer, tensors, part, out, kind)


def bytes_per_token(path):
    """Bytes of weights that one decode step reads of a GGUF: every matrix but an embedding that is not the head too."""
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
    tied = "output.weight" not in tensors
    return sum(int(t.n_bytes) for name, t in tensors.items()
               if len(t.shape) == 2 and (tied or name != "token_embd.weight"))


def matrix_sizes(path):
    """[(rows, columns)] of what decode multiplies by, of a GGUF; a tied embedding counts as the head."""
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
    tied = "output.weight" not in tensors
    return [(int(t.shape[1]), int(t.shape[0])) for name, t in tensors.items()
            if len(t.shape) == 2 and (tied or name != "token_embd.weight")]


def hone_bytes_per_token(sizes, quant):
    """Weight bytes of a Hone bundle that a decode step reads: int4 in blocks of 32 with an fp16 scale each (int8 where
    32 does not divide the columns), or int8 with a float32 scale per row."""
    total = 0
    for rows, columns in sizes:
        if quant == "int4" and columns % 32 == 0:
            total += rows * columns // 2 + rows * (columns // 32) * 2
        else:
            total += rows * columns + rows * 4
    return total


def checkpoint_sizes(folder):
    """As matrix_sizes, of a checkpoint folder."""
    entries = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        entries |= {name: shape for name, (_, shape, _) in safetensors_entries(path).items()}
    tied = "lm_head.weight" not in entries
    return [tuple(shape) for name, shape in entries.items()
            if len(shape) == 2 and (tied or name != "model.embed_tokens.weight")]

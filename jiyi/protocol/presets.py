"""The vendors that speak OpenAI's protocol: one table, from their own documentation (as of November 2026)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """What is known of a vendor before it is asked anything."""

    name: str
    #: Without it the setting has to bring one.
    base_url: str = ""
    #: Variables that may hold the key, in the order they are looked at.
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    #: Empty: the setting has to name one.
    embedding_model: str = ""
    #: Of the default embedding model, where that is known.
    dimensions: int | None = None
    #: Most texts of one embeddings call.
    max_texts: int = 64
    #: Tokens of one text that the default embedding model reads.
    max_tokens: int = 8_192
    #: Empty: the setting has to name one.
    chat_model: str = ""
    #: How its chat models are held to a form: by a JSON schema, to some JSON object, or by words alone.
    structured: Literal["schema", "object", "words"] = "words"
    #: What to say to those who want embeddings from a vendor that has none; empty where it has.
    no_embeddings: str = ""


#: Vendors by name. Where the council's default is no longer offered, its successor stands here (docs/decisions.md).
PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            name="openai",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            embedding_model="text-embedding-3-small",
            dimensions=1_536,
            max_texts=2_048,
            chat_model="gpt-4.1-mini",
            structured="schema",
        ),
        Preset(
            name="gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            embedding_model="gemini-embedding-001",
            dimensions=3_072,
            max_texts=100,
            max_tokens=2_048,
            chat_model="gemini-3.5-flash",
            structured="schema",
        ),
        Preset(
            name="ollama",
            base_url="http://localhost:11434/v1",
            key_variables=("OLLAMA_API_KEY",),
            needs_key=False,
            embedding_model="bge-m3",
            dimensions=1_024,
            chat_model="qwen3",
            structured="schema",
        ),
        Preset(
            name="deepseek",
            base_url="https://api.deepseek.com",
            key_variables=("DEEPSEEK_API_KEY",),
            chat_model="deepseek-v4-flash",
            structured="object",
            no_embeddings="DeepSeek offers no embeddings",
        ),
        Preset(
            name="dashscope",
            base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
            key_variables=("DASHSCOPE_API_KEY",),
            embedding_model="text-embedding-v4",
            dimensions=1_024,
            max_texts=10,
            chat_model="qwen-plus",
            structured="object",
        ),
        Preset(
            name="siliconflow",
            base_url="https://api.siliconflow.cn/v1",
            key_variables=("SILICONFLOW_API_KEY",),
            # The model's own 4,096 values fill an index four times as fast; it is trained to be cut.
            embedding_model="Qwen/Qwen3-Embedding-8B@1024",
            dimensions=1_024,
            max_texts=32,
            chat_model="deepseek-ai/DeepSeek-V3.2",
            structured="object",
        ),
        # Anything else that speaks the protocol: vLLM, TEI, LM Studio, a gateway. Nothing is known of it; 512 tokens
        # are what the smallest common models read.
        Preset(name="compatible", key_variables=("COMPATIBLE_API_KEY",), needs_key=False, max_tokens=512, max_texts=32),
    )
}

#: Other names for the same vendor.
ALIASES = {"google": "gemini", "openai-compatible": "compatible"}

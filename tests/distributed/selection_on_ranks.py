"""Real ranks select over both their tokens. Run under `accelerate launch`."""

from accelerate import PartialState
from support.selection import BYTES, check

from steer_trl.functional.order_statistics import all_ranks
from steer_trl.system import leave_group

if __name__ == "__main__":
    state = PartialState(cpu=True)
    assert state.num_processes == 2
    sizes = {check(case, state.process_index, 2, all_ranks) for case in range(300)}
    assert sizes == {BYTES}
    leave_group()

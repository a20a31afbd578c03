"""GRU and LSTM cores that unroll quickly, and exactly, over (T, N) with episode starts anywhere.

Input: x (T, N, I), a start state, `episode_start` (T, N). Output: hidden states (T, N, H) and
the last state. Paper: section 3 (f_r). Only the recurrent matrix product is inside the time loop: the input
product is one GEMM over all T x N rows, and the backward pass is written by hand (what does not depend on the
incoming gradient is computed for all steps at once; the weight gradient is one GEMM). It deliberately has no
native kernel and no cuDNN path: the same few tensor operations run on any device and in any dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from egomap.compute import exactly, lower
from egomap.memory.eager import eager
from egomap.memory.protocol import MemoryState, check_episode_start


class _GRUScan(torch.autograd.Function):
    """The recurrent part of a GRU over T steps; the input part is given as `gates_x`."""

    @staticmethod
    def forward(
        ctx: Any, gates_x: Tensor, hidden: Tensor, keep: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        """Takes gates_x (T, N, 3H), hidden (N, H), keep (T, N, 1), weight (3H, H), bias (3H,): (T, N, H)."""
        steps, num_envs, size = gates_x.shape[0], *hidden.shape
        transposed = weight.t()
        hidden_in = gates_x.new_empty(steps, num_envs, size)  # h_{t-1} after the reset
        gates_h = torch.empty_like(
            gates_x, memory_format=torch.contiguous_format
        )  # [r, z, W_n h + b_n] in the end
        candidate = torch.empty_like(hidden_in)
        hidden_out = torch.empty_like(hidden_in)
        reset_update, inner = gates_h[..., : 2 * size], gates_h[..., 2 * size :]
        x_reset_update, x_candidate = gates_x[..., : 2 * size], gates_x[..., 2 * size :]
        # unbind once: indexing a (T, ...) tensor in the loop costs more than the small operations themselves.
        rows = zip(
            keep.unbind(0),
            x_reset_update.unbind(0),
            x_candidate.unbind(0),
            hidden_in.unbind(0),
            gates_h.unbind(0),
            reset_update.unbind(0),
            reset_update[..., :size].unbind(0),
            reset_update[..., size:].unbind(0),
            inner.unbind(0),
            candidate.unbind(0),
            hidden_out.unbind(0),
            strict=True,
        )
        for keep_t, x_rz, x_n, h_in, gates, rz, r, z, n_inner, n, h_out in rows:
            torch.mul(hidden, keep_t, out=h_in)
            torch.addmm(bias, h_in, transposed, out=gates)
            rz.add_(x_rz).sigmoid_()
            torch.addcmul(x_n, r, n_inner, out=n).tanh_()
            torch.lerp(n, h_in, z, out=h_out)  # h = (1 - z) n + z h
            hidden = h_out
        ctx.save_for_backward(hidden_in, gates_h, candidate, keep, weight)
        return hidden_out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of gates_x, hidden, (keep: none), weight, bias."""
        hidden_in, gates_h, n, keep, weight = ctx.saved_tensors
        steps, num_envs, size = hidden_in.shape
        r, z, inner = gates_h.split(size, -1)
        # Everything here is d(gate before its squashing) / d(h_t), for all t at once.
        by_candidate = (1 - z) * (1 - n * n)
        factors = torch.stack(
            (by_candidate * inner * r * (1 - r), (hidden_in - n) * z * (1 - z), by_candidate * r), 2
        )  # (T, N, 3, H)
        grad_hidden = torch.empty_like(hidden_in)  # d loss / d h_t
        grad_gates = torch.empty_like(factors)
        grad_next = torch.zeros_like(hidden_in[0])
        rows = zip(
            grad_out.unbind(0),
            keep.unbind(0),
            z.unbind(0),
            factors.unbind(0),
            grad_hidden.unbind(0),
            grad_hidden.unsqueeze(2).unbind(0),
            grad_gates.unbind(0),
            grad_gates.flatten(2).unbind(0),
            strict=True,
        )
        for grad_t, keep_t, z_t, factor, g, g_wide, g_gates, g_gates_flat in reversed(list(rows)):
            torch.add(grad_t, grad_next, out=g)
            torch.mul(g_wide, factor, out=g_gates)
            grad_next = torch.addmm(g * z_t, g_gates_flat, weight).mul_(keep_t)
        flat = grad_gates.view(steps * num_envs, 3 * size)
        grad_weight = flat.t() @ hidden_in.view(steps * num_envs, size)
        grad_bias = flat.sum(0)
        # The input reaches the candidate without the reset gate: only that third differs from grad_gates.
        grad_x = grad_gates.clone()
        torch.mul(grad_hidden, by_candidate, out=grad_x[:, :, 2])
        return grad_x.flatten(2), grad_next, None, grad_weight, grad_bias


class _LSTMScan(torch.autograd.Function):
    """The recurrent part of an LSTM over T steps; the input part is given as `gates_x`."""

    @staticmethod
    def forward(
        ctx: Any, gates_x: Tensor, hidden: Tensor, cell: Tensor, keep: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Takes gates_x (T, N, 4H), hidden and cell (N, H), keep (T, N, 1) -> (T, N, H), last cell (N, H)."""
        steps, num_envs, size = gates_x.shape[0], *hidden.shape
        transposed = weight.t()
        gates = (gates_x + bias).contiguous()  # [i, f, g, o] in the end
        hidden_in, cell_in, squashed, hidden_out = gates_x.new_empty(4, steps, num_envs, size)
        # `keep` scales a row, so it may be applied after the product as well as before it.
        rows = zip(
            keep.unbind(0),
            gates.unbind(0),
            gates[..., : 2 * size].unbind(0),
            *(gate.unbind(0) for gate in gates.split(size, -1)),
            hidden_in.unbind(0),
            cell_in.unbind(0),
            squashed.unbind(0),
            hidden_out.unbind(0),
            strict=True,
        )
        for keep_t, gates_t, i_f, i, f, g, o, h_in, c_in, c_tanh, h_out in rows:
            torch.mul(hidden, keep_t, out=h_in)
            torch.mul(cell, keep_t, out=c_in)
            gates_t.addmm_(h_in, transposed)
            i_f.sigmoid_()
            g.tanh_()
            o.sigmoid_()
            cell = torch.addcmul(i * g, f, c_in)
            torch.tanh(cell, out=c_tanh)
            torch.mul(o, c_tanh, out=h_out)
            hidden = h_out
        ctx.save_for_backward(hidden_in, cell_in, gates, squashed, keep, weight)
        return hidden_out, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_cell: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of gates_x, hidden, cell, (keep: none), weight, bias."""
        hidden_in, cell_in, gates, squashed, keep, weight = ctx.saved_tensors
        steps, num_envs, size = hidden_in.shape
        i, f, g, o = gates.split(size, -1)
        by_cell = torch.stack((g * i * (1 - i), cell_in * f * (1 - f), i * (1 - g * g)), 2)  # (T, N, 3, H)
        by_output = squashed * o * (1 - o)
        cell_by_hidden = o * (1 - squashed * squashed)
        forget = f * keep
        grad_gates = gates.new_empty(steps, num_envs, 4, size)
        grad_next = torch.zeros_like(hidden_in[0])
        rows = zip(
            grad_out.unbind(0),
            keep.unbind(0),
            by_cell.unbind(0),
            by_output.unbind(0),
            cell_by_hidden.unbind(0),
            forget.unbind(0),
            grad_gates[:, :, :3].unbind(0),
            grad_gates[:, :, 3].unbind(0),
            grad_gates.flatten(2).unbind(0),
            strict=True,
        )
        for grad_t, keep_t, b_cell, b_out, c_by_h, forget_t, g_ifg, g_o, g_flat in reversed(list(rows)):
            grad_h = grad_t + grad_next
            grad_c = torch.addcmul(grad_cell, grad_h, c_by_h)
            torch.mul(grad_c.unsqueeze(1), b_cell, out=g_ifg)
            torch.mul(grad_h, b_out, out=g_o)
            grad_next = torch.mm(g_flat, weight).mul_(keep_t)
            grad_cell = grad_c * forget_t
        flat = grad_gates.view(steps * num_envs, 4 * size)
        grad_weight = flat.t() @ hidden_in.reshape(steps * num_envs, size)
        return grad_gates.flatten(2), grad_next, grad_cell, None, grad_weight, flat.sum(0)


# A loop of T small operations on out= views is nothing for a compiler to gain on: run it as it stands.
_gru_scan = eager(_GRUScan.apply)
_lstm_scan = eager(_LSTMScan.apply)


class _Core(nn.Module):
    """Weights and checks shared by the two cores."""

    gates: int
    states: int
    unroll: Callable[..., tuple[Tensor, ...]]

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        if input_size < 1 or hidden_size < 1:
            raise ValueError(
                f"input_size and hidden_size must be at least 1; got {input_size} and {hidden_size}."
            )
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = self.gates * hidden_size
        self.weight_ih = nn.Parameter(nn.init.orthogonal_(torch.empty(rows, input_size)))
        self.weight_hh = nn.Parameter(nn.init.orthogonal_(torch.empty(rows, hidden_size)))
        self.bias_ih = nn.Parameter(torch.zeros(rows))
        self.bias_hh = nn.Parameter(torch.zeros(rows))

    def _once(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """A step under autocast: as the unroll does it, with a product of lower precision for the input alone."""
        nowhere = torch.zeros(1, len(x), dtype=torch.bool, device=x.device)
        out: tuple[Tensor, ...] = self.unroll(x[None], *state, nowhere)
        return out[1:]

    def initial_state(self, n: int) -> MemoryState:
        """Zeros (n, hidden_size), as many as the core has states."""
        return tuple(self.weight_hh.new_zeros(n, self.hidden_size) for _ in range(self.states))

    def _check(self, x: Tensor, state: MemoryState, episode_start: Tensor) -> None:
        if x.dim() != 3 or x.shape[0] < 1 or x.shape[2] != self.input_size:
            raise ValueError(f"x must be (T, N, {self.input_size}) with T >= 1; got {tuple(x.shape)}.")
        check_episode_start(episode_start, tuple(x.shape[:2]))
        expected = (x.shape[1], self.hidden_size)
        if len(state) != self.states or any(tensor.shape != expected for tensor in state):
            got = [tuple(tensor.shape) for tensor in state]
            raise ValueError(f"the state must be {self.states} tensor(s) of {expected}; got {got}.")

    def _prepare(self, x: Tensor, episode_start: Tensor) -> tuple[Tensor, Tensor]:
        """The input part of the gates for all steps (T, N, gates * H), and the factor 0 or 1 (T, N, 1)."""
        # Under autocast the product is of lower precision; the state and its recursion keep the core's own.
        gates_x = F.linear(x, self.weight_ih, self.bias_ih).to(self.weight_hh.dtype)
        return gates_x, episode_start.logical_not().unsqueeze(-1).to(gates_x.dtype)


class GRUCore(_Core):
    """A GRU (PyTorch's equations) with a fast, exact unroll over episodes.

    Shapes: `step(x (N, I), hidden (N, H)) -> (N, H)`;
    `unroll(x (T, N, I), hidden (N, H), episode_start (T, N)) -> hidden (T, N, H), last hidden (N, H)`.
    """

    gates, states = 3, 1

    def step(self, x: Tensor, hidden: Tensor) -> Tensor:
        """One step: x (N, I), hidden (N, H) -> the next hidden (N, H)."""
        if lower(x) is not None:
            return self._once(x, hidden)[0]
        return torch.gru_cell(x, hidden, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def unroll(self, x: Tensor, hidden: Tensor, episode_start: Tensor) -> tuple[Tensor, Tensor]:
        """T steps; `hidden` is set to zero before each step where `episode_start` is True."""
        self._check(x, (hidden,), episode_start)
        gates_x, keep = self._prepare(x, episode_start)
        with exactly(gates_x):
            out = cast(Tensor, _gru_scan(gates_x, hidden, keep, self.weight_hh, self.bias_hh))
        return out, out[-1]


class LSTMCore(_Core):
    """An LSTM (PyTorch's equations) with a fast, exact unroll over episodes; the state is (hidden, cell).

    Shapes: `step(x (N, I), hidden, cell (N, H)) -> hidden, cell`;
    `unroll(x (T, N, I), hidden, cell (N, H), episode_start (T, N)) -> hidden (T, N, H), last two states`.
    """

    gates, states = 4, 2

    def step(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """One step: x (N, I), hidden and cell (N, H) -> the next hidden and cell (N, H)."""
        if lower(x) is not None:
            hidden, cell = self._once(x, hidden, cell)
            return hidden, cell
        return torch.lstm_cell(x, (hidden, cell), self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def unroll(
        self, x: Tensor, hidden: Tensor, cell: Tensor, episode_start: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """T steps; hidden and cell are set to zero before each step where `episode_start` is True."""
        self._check(x, (hidden, cell), episode_start)
        gates_x, keep = self._prepare(x, episode_start)
        with exactly(gates_x):
            out, last = cast(
                tuple[Tensor, Tensor], _lstm_scan(gates_x, hidden, cell, keep, self.weight_hh, self.bias_hh)
            )
        return out, out[-1], last

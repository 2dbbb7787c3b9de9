"""Forward passes recorded as programs, in which all that depends on the graph is computed once.

A convolution of PyG adds self-loops, counts degrees and normalises at every call, although edges
and features do not change while a network is trained. In a recorded program these steps are seen
to depend on constants alone. They are computed once; products with sparse features, and messages
that are added up, become sparse products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch.autograd.function import once_differentiable
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from drgcn.errors import DrgcnError
from drgcn.nn.base import compress
from drgcn.nn.sparse import (
    SparseMatrix,
    SparsePattern,
    constant_product,
    csr_product,
    inner_products,
    sparse_product,
    times,
)

# A function of parameters, buffers and keys, each stacked along a first axis.
Pass = Callable[[dict[str, Tensor], dict[str, Tensor], Tensor], Tensor]
# Values of nodes that are constant.
Constants = dict[fx.Node, Any]

aten = torch.ops.aten
# Fewest entries of a constant matrix for which its zeros are counted.
_LARGE: Final = 2**12
# Scores of nodes up to which the exponents of their sums are far from the limits of floats, so
# that a softmax need not subtract the largest.
_LARGE_SCORE: Final = 20.0


def record(
    function: Pass, parameters: dict[str, Tensor], buffers: dict[str, Tensor], keys: Tensor
) -> Pass:
    """Return a program that computes what ``function`` does.

    Args:
        function: The pass. What else it reads, such as edges, is taken as constant.
        parameters: Parameters, whose values do not matter.
        buffers: Buffers; those that the pass changes are changed by the program too.
        keys: Keys of its random numbers.

    Raises:
        DrgcnError: If it draws random numbers that do not come from the keys.
    """
    detached = {name: value.detach() for name, value in parameters.items()}

    def copies() -> dict[str, Tensor]:
        return {name: value.clone() for name, value in buffers.items()}

    program = make_fx(function)(detached, copies(), keys)
    _fold(program)  # what is constant need not be made functional, and sometimes cannot be
    program.recompile()
    # In a second pass, because functions with gradients of their own cannot be in the first.
    program = make_fx(functionalize(program, remove="mutations"))(detached, copies(), keys)
    for node in program.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise DrgcnError(f"it draws random numbers by {node.target}")
    constants = _fold(program)
    _multiply_sparse_features(program, constants)
    if keys.device.type == "cpu":
        _attend_in_one_step(program, constants)
    _add_messages_by_products(program, constants)
    if keys.device.type == "cpu":
        _find_largest_by_products(program, constants)
    program.graph.eliminate_dead_code()
    program.recompile()
    return program


def _fold(program: fx.GraphModule) -> Constants:
    """Compute the nodes that depend on constants alone; return the values of those still read."""
    graph, values = program.graph, Constants()
    for node in graph.nodes:
        if node.op == "get_attr":
            values[node] = getattr(program, str(node.target))
        elif node.op == "call_function" and all(i in values for i in node.all_input_nodes):
            args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
    _unfold_what_is_written(graph, values)
    for number, node in enumerate(list(graph.nodes)):
        read = any(user not in values for user in node.users)
        if node.op == "call_function" and read and isinstance(values.get(node), Tensor):
            name = f"folded_{number}"
            program.register_buffer(name, values[node], persistent=False)
            with graph.inserting_before(node):
                constant = graph.get_attr(name)
            values[constant] = values[node]
            node.replace_all_uses_with(constant)
    # By hand: what writes into a constant counts as having an effect, and would be kept.
    for node in reversed(list(graph.nodes)):
        if node in values and not node.users:
            graph.erase_node(node)
            del values[node]
    used = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    for name in [name for name, _ in program.named_buffers() if name not in used]:
        delattr(program, name)
    return values


def _unfold_what_is_written(graph: fx.Graph, values: Constants) -> None:
    """Take constants that the program writes into, and all made from them, out of the values."""
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node in values or schema is None or not schema.is_mutable:
            continue
        written = [
            value
            for argument, value in zip(schema.arguments, node.args, strict=False)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        waiting = [value for value in written if value in values]
        if any(value.op == "get_attr" for value in waiting):
            raise DrgcnError("it writes into its input")
        while waiting:
            taken = waiting.pop()
            if values.pop(taken, None) is not None:
                waiting += [user for user in taken.users if user in values]
                waiting += [made for made in taken.all_input_nodes if _is_fresh(made, values)]


def _is_fresh(node: fx.Node, values: Constants) -> bool:
    """True for constants that share memory with what is made from them by views."""
    return node in values and node.op == "call_function"


def _replace(program: fx.GraphModule, node: fx.Node, module: torch.nn.Module, *args: Any) -> None:
    name = f"product_{sum(1 for _ in program.children())}"
    program.add_submodule(name, module)
    with program.graph.inserting_before(node):
        new = program.graph.call_module(name, args)
    new.meta = dict(node.meta)
    node.replace_all_uses_with(new)


# Sparse features


class _SparseTimes(torch.nn.Module):
    """The product of a constant with ``[columns, k]`` or ``[lanes, columns, k]``, and a bias."""

    def __init__(self, matrix: SparseMatrix) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        lanes = weight if weight.dim() == 3 else weight[None]
        out = constant_product(self.matrix, lanes).view(*weight.shape[:-2], -1, weight.size(-1))
        return out if bias is None else out + bias


def _multiply_sparse_features(program: fx.GraphModule, constants: Constants) -> None:
    """Replace products of constants with many zeros by sparse products."""
    found: dict[Any, SparseMatrix | Tensor] = {}
    places: dict[Any, int] = {
        aten.mm.default: 0,
        aten.bmm.default: 0,
        aten.addmm.default: 1,
    }
    for node in list(program.graph.nodes):
        place = places.get(node.target)
        if place is None or node.kwargs:
            continue
        x = constants.get(node.args[place])
        if x is None or not x.is_floating_point():
            continue
        if x.dim() == 3 and (x.size(0) == 1 or x.stride(0) == 0):
            x = x[0]  # the same for all lanes
        if x.dim() != 2 or x.numel() < _LARGE:
            continue
        key = (x.data_ptr(), x.shape, x.stride())
        if key not in found:
            found[key] = compress(x)
        matrix, factors = found[key], node.args[:place] + node.args[place + 1 :]
        if isinstance(matrix, SparseMatrix):
            _replace(program, node, _SparseTimes(matrix), *reversed(factors))


# Messages


class _SumOfNeighbours(torch.nn.Module):
    """Sums over neighbours of ``[nodes, ...]`` or ``[lanes, nodes, ...]``, with fixed weights."""

    def __init__(self, matrix: SparseMatrix, axis: int) -> None:
        super().__init__()
        self.matrix, self.axis = matrix, axis

    def forward(self, x: Tensor) -> Tensor:
        shape, axis = x.shape, self.axis
        lanes = x.reshape(shape[0] if axis else 1, shape[axis], -1)
        out = constant_product(self.matrix, lanes)
        return out.view(*shape[:axis], -1, *shape[axis + 1 :])


class _WeightedSumOfNeighbours(torch.nn.Module):
    """Sums over neighbours with weights per message and head, as in attention.

    Features are ``[nodes, heads, k]`` and weights ``[messages, heads, 1]``, or both with lanes
    before them; heads may be missing.
    """

    def __init__(self, pattern: SparsePattern, order: Tensor, axis: int) -> None:
        super().__init__()
        self.pattern, self.axis = pattern, axis
        self.order = order

    def forward(self, weight: Tensor, x: Tensor) -> Tensor:
        shape, axis = x.shape, self.axis
        k = shape[-1]
        lanes = x.reshape(shape[0] if axis else 1, shape[axis], -1, k).transpose(1, 2)
        values = weight.reshape(lanes.size(0), weight.size(axis), -1).index_select(1, self.order)
        matrix = SparseMatrix(self.pattern, values.transpose(1, 2).flatten(0, 1))
        out = sparse_product(matrix, lanes.reshape(-1, shape[axis], k))
        out = out.view(*lanes.shape[:2], -1, k).transpose(1, 2)
        return out.contiguous().view(*shape[:axis], -1, *shape[axis + 1 :])


class _LargestMessage(torch.nn.Module):
    """The largest message to each node, or zero, of ``[messages, ...]`` on CPU; no gradient."""

    def __init__(self, to: Tensor, nodes: int, axis: int) -> None:
        super().__init__()
        self.messages = torch.sparse_csr_tensor(
            F.pad(torch.bincount(to, minlength=nodes).cumsum(0), (1, 0)),
            to.argsort(stable=True),
            torch.ones(len(to)),
            (nodes, len(to)),
            check_invariants=False,
        )
        self.axis = axis

    def forward(self, messages: Tensor) -> Tensor:
        rows = messages.detach().movedim(self.axis, 0)
        largest = torch.sparse.mm(self.messages.to(rows.dtype), rows.flatten(1), "amax")
        return largest.view(-1, *rows.shape[1:]).movedim(0, self.axis)


def _find_largest_by_products(program: fx.GraphModule, constants: Constants) -> None:
    """Replace the maximum in a softmax over neighbours, the slowest part of it on CPU."""
    for node in list(program.graph.nodes):
        if node.target is not aten.scatter_reduce.two or node.args[4] != "amax":
            continue
        base, axis, index, messages, _ = node.args
        axis %= len(_shape(node))
        to = _one_list(constants.get(index), axis)
        without_gradient = getattr(messages, "target", None) is aten.detach.default
        alone = node.kwargs.get("include_self") is False and _is_zero(base, constants)
        if to is not None and without_gradient and alone:
            largest = _LargestMessage(to, _shape(node)[axis], axis)
            _replace(program, node, largest, messages)


def _add_messages_by_products(program: fx.GraphModule, constants: Constants) -> None:
    """Replace rows that are gathered, weighed and added up at other places by one product."""
    for node in list(program.graph.nodes):
        if node.target is not aten.scatter_add.default or not _is_zero(node.args[0], constants):
            continue
        axis = node.args[1] % len(_shape(node))
        to = _one_list(constants.get(node.args[2]), axis)
        weight, message = _weighed(node.args[3], constants)
        gathered = _gathered(message, constants)
        if to is None or gathered is None or axis > 1:
            continue
        source, along, start = gathered
        shape = (_shape(node)[axis], _shape(source)[axis])
        if along != axis or _around(message, axis) != _around(node, axis):
            continue
        if not isinstance(weight, fx.Node) or weight in constants:
            known = constants[weight] if isinstance(weight, fx.Node) else weight
            value = 1.0 if known is None else known
            fixed = _constant_sum(value, to, start, shape, axis, message)
            if fixed is not None:
                _replace(program, node, fixed, source)
        elif _shape(weight) == (*_shape(message)[:-1], 1):
            pattern, order = SparsePattern.from_coordinates(to, start, shape)
            module = _WeightedSumOfNeighbours(pattern, order, axis)
            _replace(program, node, module, weight, source)


def _constant_sum(
    weight: Any, to: Tensor, start: Tensor, shape: tuple[int, int], axis: int, message: fx.Node
) -> _SumOfNeighbours | None:
    """Return the sum with constant weights, if there is but one weight per message."""
    dtype = message.meta["tensor_meta"].dtype
    value = torch.as_tensor(weight, dtype=dtype, device=start.device)
    sizes = (1,) * (len(_shape(message)) - value.dim()) + tuple(value.shape)
    if any(size != 1 for place, size in enumerate(sizes) if place != axis):
        return None
    adjacency = torch.sparse_coo_tensor(
        torch.stack([to, start]),
        value.reshape(-1).expand(len(start)),
        shape,
        check_invariants=False,
    )
    # Several edges between two nodes become one.
    return _SumOfNeighbours(SparseMatrix.from_tensor(adjacency.coalesce()), axis)


# Attention


class _Attention(torch.nn.Module):
    """Sums over neighbours of ``x`` ``[nodes, heads, k]`` with the weights of GAT, on CPU.

    The weight of a message from j to i is the softmax over all messages to i of
    ``leaky_relu(source . x[j] + target . x[i])``, times its factor of dropout. ``source`` and
    ``target`` are ``[1, heads, k]``, and factors one for each message and head.

    Args:
        to: Targets of the messages.
        start: Their sources.
        x: Features, whose values do not matter.
        slope: Slope of the leaky ReLU.
    """

    def __init__(self, to: Tensor, start: Tensor, x: Tensor, slope: float) -> None:
        super().__init__()
        (nodes, heads, _), self.slope = x.shape, slope
        self.eye = torch.eye(heads, dtype=x.dtype)[..., None]
        # Messages in the order of the matrix that adds them up.
        pattern, self.order = SparsePattern.from_coordinates(to, start, (nodes, nodes))
        self.targets, self.sources = to[self.order], start[self.order]
        self.largest = _LargestMessage(self.targets, nodes, 0)
        places, ones = torch.arange(len(to)), torch.ones(len(to), dtype=x.dtype)
        self.by_target, self.by_source = (
            SparseMatrix.from_coordinates(node, places, ones, (nodes, len(to))).constant_csr
            for node in (self.targets, self.sources)
        )
        self.entries = self.from_entries = None
        if heads > 1:  # one matrix, in which every head of a node has a row
            rows, columns = (
                (node[:, None] * heads + torch.arange(heads)).flatten()
                for node in (self.targets, self.sources)
            )
            shape = (nodes * heads, nodes * heads)
            pattern, self.entries = SparsePattern.from_coordinates(rows, columns, shape)
            self.from_entries = self.entries.argsort()
        self.pattern = pattern.narrowed()

    def forward(
        self, x: Tensor, source: Tensor, target: Tensor, factors: Tensor | None = None
    ) -> Tensor:
        return _AttentionSum.apply(x, source, target, factors, self)


class _AttentionSum(torch.autograd.Function):
    """The formula of :class:`_Attention`, and its gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, source: Tensor, target: Tensor, factors: Tensor | None, of: _Attention
    ) -> Tensor:
        # All scores of nodes are one product, with each head's weights in rows of their own.
        blocks = (torch.stack([source, target]) * of.eye).view(2 * x.size(1), -1)
        of_nodes = x.flatten(1) @ blocks.t()
        sent, received = of_nodes.chunk(2, 1)
        scores = _rows(sent, of.sources) + _rows(received, of.targets)
        scores = F.leaky_relu_(scores, of.slope)
        least, most = of_nodes.aminmax()
        if float(least) > -_LARGE_SCORE and float(most) < _LARGE_SCORE:
            weights = scores.exp()
        else:
            weights = (scores - _rows(of.largest(scores), of.targets)).exp_()
        weights /= _rows(times(of.by_target, weights), of.targets)
        if factors is not None:
            factors = _rows(factors.view(scores.shape), of.order)
        values = _in_order(weights if factors is None else weights * factors, of.entries)
        ctx.of = of
        ctx.save_for_backward(x, blocks, scores, weights, factors, values)
        return csr_product(of.pattern, values, x.flatten(0, 1)).view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, blocks, scores, weights, factors, values = ctx.saved_tensors
        of, grad = ctx.of, grad.flatten(0, 1)
        found = inner_products(of.pattern, grad, x.flatten(0, 1))
        found = _in_order(found, of.from_entries).view(scores.shape)  # of weights
        found = found.mul_(weights) if factors is None else found.mul_(factors).mul_(weights)
        found -= weights * _rows(times(of.by_target, found), of.targets)  # of scores
        found = aten.leaky_relu_backward(found, scores, of.slope, True)  # of their two parts
        of_nodes = torch.cat([times(of.by_source, found), times(of.by_target, found)], 1)
        values = values.index_select(0, of.pattern.to_transpose)
        grad_x = csr_product(of.pattern.transpose, values, grad).view_as(x)
        grad_x.flatten(1).addmm_(of_nodes, blocks)
        both = (of_nodes.t() @ x.flatten(1)).view(2, -1, *x.shape[1:])  # [2, heads, heads, k]
        both = both.diagonal(0, 1, 2).transpose(1, 2)
        return grad_x, both[:1], both[1:], None, None


def _rows(table: Tensor, rows: Tensor) -> Tensor:
    """Return rows of a table; of a single column as numbers, which is faster."""
    if table.size(1) > 1:
        return table.index_select(0, rows)
    return table.squeeze(1).index_select(0, rows)[:, None]


def _in_order(values: Tensor, order: Tensor | None) -> Tensor:
    return values.flatten() if order is None else values.flatten().index_select(0, order)


def _attend_in_one_step(program: fx.GraphModule, constants: Constants) -> None:
    """Replace what GATConv of PyG does between the linear map and the sums of messages."""
    for node in list(program.graph.nodes):
        for formula in _attention_formulas():
            found: dict[str, Any] = {}
            if not _matches(formula, node, found, constants):
                continue
            tensors = [found[n] for n in ("x", "source", "target", "factors") if n in found]
            shape = _shape(node)
            shapes = [shape, (1, *shape[1:]), (1, *shape[1:])]
            fits = [_shape(tensor) for tensor in tensors[:3]] == shapes
            zeros = all(_is_zero(found[name], constants) for name in ("zeros", "none"))
            # Factors have no gradient here.
            drawn = all(getattr(f.target, "namespace", "") == "drgcn" for f in tensors[3:])
            if fits and zeros and drawn:
                x = torch.empty(shape, dtype=node.meta["tensor_meta"].dtype)
                module = _Attention(found["to"], found["start"], x, found["slope"])
                _replace(program, node, module, *tensors)
    program.graph.eliminate_dead_code()


def _attention_formulas() -> list[tuple[Any, ...]]:
    """Return the attention of PyG's GATConv, without dropout and with it."""
    rows, add, mul, total = aten.index_select.default, aten.add.Tensor, aten.mul.Tensor, aten.sum
    start = (rows, (total.dim_IntList, (mul, "x", "source"), [-1]), 0, "start")
    to = (rows, (total.dim_IntList, (mul, "x", "target"), [-1]), 0, "to")
    scores = (aten.leaky_relu.default, (add, start, to), "slope")
    largest = (aten.scatter_reduce.two, "any", 0, "to", (aten.detach.default, scores))
    powers = (aten.exp.default, (aten.sub.Tensor, scores, (rows, largest, 0, "to")))
    sums = (add, (aten.scatter_add.default, "none", 0, "to", powers), 1e-16)
    weights = (aten.div.Tensor, powers, (rows, sums, 0, "to"))
    dropped = (mul, weights, (aten.view.default, "factors"))
    return [
        (
            aten.scatter_add.default,
            "zeros",
            0,
            "to",
            (mul, (aten.unsqueeze.default, kept, -1), (rows, "x", 0, "start")),
        )
        for kept in (weights, dropped)
    ]


def _matches(formula: Any, value: Any, found: dict[str, Any], constants: Constants) -> bool:
    """Return whether a node computes a formula, of operations with their first arguments.

    A word stands for anything, the same wherever it stands, and is entered into ``found``;
    an index as the list of numbers along its first axis.
    """
    if isinstance(formula, tuple):
        return (
            isinstance(value, fx.Node)
            and value.target is formula[0]
            and len(value.args) >= len(formula) - 1
            and all(
                _matches(part, own, found, constants)
                for part, own in zip(formula[1:], value.args, strict=False)
            )
        )
    if not isinstance(formula, str):
        return bool(formula == value)
    known = constants.get(value) if isinstance(value, fx.Node) else None
    if known is not None and known.dtype == torch.int64:
        value = _one_list(known, 0)
    before = found.setdefault(formula, value)
    if value is None:
        return False
    return before is value or (
        isinstance(before, Tensor) and isinstance(value, Tensor) and torch.equal(before, value)
    )


# What a node of a program is


def _is_zero(node: Any, constants: Constants) -> bool:
    if getattr(node, "target", None) in (aten.new_zeros.default, aten.zeros.default):
        return True
    value = constants.get(node)
    return isinstance(value, Tensor) and not bool(value.any())


def _weighed(node: fx.Node, constants: Constants) -> tuple[Any, fx.Node]:
    """Return weights and gathered rows of messages; without weights, the messages themselves."""
    if node.target is aten.mul.Tensor:
        first, second = node.args
        for weight, rows in ((first, second), (second, first)):
            if isinstance(rows, fx.Node) and _gathered(rows, constants) is not None:
                return weight, rows
    return None, node


def _gathered(node: fx.Node, constants: Constants) -> tuple[fx.Node, int, Tensor] | None:
    """Return source, axis and numbers of the rows that a node gathers, if it does."""
    if node.target not in (aten.index_select.default, aten.gather.default):
        return None
    source, axis, index = node.args
    assert isinstance(source, fx.Node)
    assert isinstance(axis, int)
    axis %= len(_shape(source))
    rows = _one_list(constants.get(index), 0 if node.target is aten.index_select.default else axis)  # type: ignore[arg-type]
    if rows is None or _around(node, axis) != _around(source, axis):
        return None
    return source, axis, rows


def _one_list(index: Any, axis: int) -> Tensor | None:
    """Return the numbers along an axis of an index that repeats them along all others."""
    if not isinstance(index, Tensor) or index.numel() == 0:
        return None
    for place in reversed(range(index.dim())):
        if place != axis:
            if index.stride(place) != 0 and index.size(place) > 1:
                return None
            index = index.select(place, 0)
    return index


def _shape(node: fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["tensor_meta"].shape)


def _around(node: fx.Node, axis: int) -> tuple[int, ...]:
    """Sizes of all axes but one."""
    shape = _shape(node)
    return shape[:axis] + shape[axis + 1 :]

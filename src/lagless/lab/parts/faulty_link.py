"""A TCP connection that fails as networks do, between two parts that know nothing of it.

It is a proxy on a port of its own. Whatever goes through it is passed on, delayed, slowed down,
held for ever or cut off, and can be healed again.
"""

import asyncio
import threading
from dataclasses import dataclass
from typing import Literal, Self

from lagless.adapters.spark.sessions import HOST

Fault = Literal["cut", "delay", "throttle", "half-open"]
FAULTS: tuple[Fault, ...] = ("cut", "delay", "throttle", "half-open")
CHUNK = 16_384


@dataclass(frozen=True, slots=True)
class State:
    """How the link is."""

    fault: Fault | None = None
    amount: float = 0
    """delay: seconds for each piece of data; throttle: bytes/s."""


class FaultyLink:
    """A proxy in front of a TCP port of this machine.

    `cut` resets every connection and refuses new ones. `half-open` leaves them open, and nothing
    passes, as when the other machine has lost its power; they are reset when the link heals.
    """

    def __init__(self, target: int = 0) -> None:
        self.target = target
        """The port behind; it may be set later."""
        self.passed = 0
        """Bytes that arrived on either side."""
        self.refused = 0
        """Connections that were reset, or that were refused while the link was cut."""
        self._state = State()
        self._changed = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)
        self._thread.start()
        starting = asyncio.start_server(self._serve, HOST, 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"{HOST}:{self.port}"

    def fail(self, fault: Fault, amount: float = 0) -> None:
        """Have a fault from now on."""
        self._set(State(fault, amount))

    def heal(self) -> None:
        """Pass everything on again."""
        self._set(State())

    def close(self) -> None:
        """End the proxy and its connections."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _set(self, state: State) -> None:
        async def change() -> None:
            # What was held for ever, and then went on, would be a fault that no network has.
            if state.fault == "cut" or self._state.fault == "half-open":
                self._reset()
            self._state = state
            self._changed.set()
            self._changed = asyncio.Event()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result(10)

    def _reset(self) -> None:
        for writer in tuple(self._open):
            self.refused += 1
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        self._reset()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._state.fault == "cut":
            self.refused += 1
            writer.transport.abort()
            return
        self._open.add(writer)
        behind: asyncio.StreamWriter | None = None
        try:
            if self._state.fault == "half-open":
                # Until the link heals, which resets this connection.
                await self._changed.wait()
                return
            answers, behind = await asyncio.open_connection(HOST, self.target)
            self._open.add(behind)
            pumps = [
                asyncio.create_task(self._pump(reader, behind)),
                asyncio.create_task(self._pump(answers, writer)),
            ]
            _, left = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in left:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # there is nothing behind: the client sees the connection end
        finally:
            for end in (writer, behind):
                if end is not None:
                    self._open.discard(end)
                    end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            while self._state.fault == "half-open":
                await self._changed.wait()
            state = self._state
            if state.fault == "delay":
                await asyncio.sleep(state.amount)
            elif state.fault == "throttle":
                await asyncio.sleep(len(data) / state.amount)
            writer.write(data)
            await writer.drain()
            self.passed += len(data)
        # What was sent before the end arrives before it.
        if writer.can_write_eof():
            writer.write_eof()
        await asyncio.sleep(0.05)

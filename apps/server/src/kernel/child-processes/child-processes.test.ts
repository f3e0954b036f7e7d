import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isRunning, startTimeOf } from '#src/kernel/running-process.ts'
import { adoptProcess } from './adopt.ts'
import { EarlyExit, type Launch, type LaunchedChild, launch } from './launch.ts'
import { type Child, type Command, NotStarted, startProcess } from './process.ts'
import { type StopStep, stopProcess } from './stop.ts'
import { type Clock, type Supervision, type Supervisor, supervise } from './supervise.ts'

/** Longer than any test may take: reaching it is a failure. */
const never = 600_000
const kill: StopStep[] = [{ signal: 'SIGKILL', withinMs: never }]
const pids = new Set<number>()

const script = (text: string): Command => ({
  binary: process.execPath,
  args: ['-e', text],
  env: {},
  cwd: '/',
  stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
})
const staysUp = 'setInterval(() => {}, 1000);'
const saysReady = `process.send('ready');`
/** Ignores SIGTERM, and sends a message once the handler is installed. */
const ignoresTerm = `process.on('SIGTERM', () => {}); ${staysUp} ${saysReady}`

const firstMessage: Launch['handshake'] = async (child, signal) => {
  pids.add(child.pid)
  await once(child.process, 'message', { signal })
}
const options = (text: string, over: Partial<Launch> = {}): Launch => ({
  name: 'the child',
  command: script(text),
  handshake: firstMessage,
  stopSteps: () => kill,
  ...over,
})
const ready = (over: Partial<Launch> = {}) => launch(options(staysUp + saysReady, over))
const mark = (pid: number) => ({ pid, startTime: startTimeOf(pid) })

afterEach(() => {
  for (const pid of pids)
    try {
      process.kill(pid, 'SIGKILL')
    } catch {} // it has ended
  pids.clear()
})

describe('launch', () => {
  test('resolves after the handshake', async () => {
    const child = await ready()
    assert.equal(child.hasExited(), false)
    await child.stop()
    assert.equal(await child.exited, 'signal SIGKILL')
    assert.equal(child.hasExited(), true)
  })

  test('a child that misses the deadline of its handshake is stopped', async () => {
    let started: Child | undefined
    const handshake: Launch['handshake'] = async (child, signal) => {
      started = child
      await firstMessage(child, signal)
    }
    await assert.rejects(
      launch(options(staysUp, { handshake, handshakeMs: 1 })),
      /the child was not ready within 1 ms/,
    )
    assert.equal(await started!.exited, 'signal SIGKILL')
  })

  test('a child that ends before its handshake is an early exit', async () => {
    await assert.rejects(
      launch(options('process.exit(3)')),
      error => error instanceof EarlyExit && error.how === 'code 3',
    )
  })

  test('a handshake that fails stops the child', async () => {
    let started: Child | undefined
    const handshake: Launch['handshake'] = async child => {
      started = child
      throw new Error('wrong version')
    }
    await assert.rejects(launch(options(staysUp, { handshake })), /wrong version/)
    assert.equal(started!.hasExited(), true)
  })

  test('a stop during the handshake stops the child and rejects with the reason', async () => {
    const stopping = new AbortController()
    let started: Child | undefined
    const handshake: Launch['handshake'] = async (child, signal) => {
      started = child
      queueMicrotask(() => stopping.abort(new Error('the platform stops')))
      await once(child.process, 'message', { signal })
    }
    const launching = launch(options(staysUp, { handshake, signal: stopping.signal }))
    await assert.rejects(launching, /the platform stops/)
    assert.equal(await started!.exited, 'signal SIGKILL')
  })

  test('a stop before the start starts nothing', async () => {
    let isStarted = false
    const handshake: Launch['handshake'] = async () => {
      isStarted = true
    }
    const signal = AbortSignal.abort(new Error('the platform stops'))
    await assert.rejects(launch(options(staysUp, { handshake, signal })), /the platform stops/)
    assert.equal(isStarted, false)
  })

  test('a binary that cannot be run is a rejection that names it', async () => {
    const command = { ...script(''), binary: '/nonexistent/program' }
    await assert.rejects(
      launch(options('', { command })),
      error => error instanceof NotStarted && /cannot run \/nonexistent\/program/.test(error.message),
    )
  })

  test('the last message is received before the child counts as closed', async () => {
    const received: unknown[] = []
    const text = `process.on('message', () => process.send('last', () => process.kill(process.pid, 'SIGKILL'))); ${saysReady}`
    const child = await launch(options(text))
    child.process.on('message', message => received.push(message))
    child.process.send('end')
    assert.equal(await child.closed, 'signal SIGKILL')
    assert.deepEqual(received, ['last'])
  })
})

describe('stop', () => {
  const signals: string[] = []
  const recorded = (child: LaunchedChild) => ({
    ...child,
    signal(name: NodeJS.Signals) {
      signals.push(name)
      child.signal(name)
    },
  })
  afterEach(() => {
    signals.length = 0
  })

  test('a child that ends at the first signal gets no second one', async () => {
    const child = await ready()
    await stopProcess(recorded(child), [{ signal: 'SIGTERM', withinMs: never }, ...kill], 'the child')
    assert.deepEqual(signals, ['SIGTERM'])
    assert.equal(await child.exited, 'signal SIGTERM')
  })

  test('a child that ignores a signal gets the next one after the deadline', async () => {
    const child = await launch(options(ignoresTerm))
    await stopProcess(recorded(child), [{ signal: 'SIGTERM', withinMs: 1 }, ...kill], 'the child')
    assert.deepEqual(signals, ['SIGTERM', 'SIGKILL'])
    assert.equal(await child.exited, 'signal SIGKILL')
  })

  test('a hopeless signal is followed by the next one before its deadline', async () => {
    const child = await launch(options(ignoresTerm))
    let checks = 0
    const isHopeless = { afterMs: 0, check: () => ++checks > 0 }
    await stopProcess(
      recorded(child),
      [{ signal: 'SIGTERM', withinMs: never, isHopeless }, ...kill],
      'the child',
    )
    assert.deepEqual([signals, checks], [['SIGTERM', 'SIGKILL'], 1])
  })

  test('a child that survives the last signal is an error', async () => {
    const child = await launch(options(ignoresTerm))
    const steps: StopStep[] = [{ signal: 'SIGTERM', withinMs: 1 }]
    await assert.rejects(stopProcess(child, steps, 'the child'), /the child does not end/)
  })

  test('a child that has ended gets no signal', async () => {
    const child = await startProcess(script(''))
    await child.exited
    await stopProcess(recorded({ ...child, stop: async () => {} }), kill, 'the child')
    assert.deepEqual(signals, [])
  })
})

describe('adoption', () => {
  test('a process of an earlier run is recognised and stopped', async () => {
    const left = spawn(process.execPath, ['-e', staysUp])
    pids.add(left.pid!)
    const { startTime } = mark(left.pid!)
    const adopted = adoptProcess(left.pid!, pid => isRunning({ pid, startTime }))
    assert.ok(adopted)
    await stopProcess(adopted, kill, 'the process')
    assert.equal(adopted.hasExited(), true)
  })

  test('another process with the same id is not adopted', () => {
    const stranger = spawn(process.execPath, ['-e', staysUp])
    pids.add(stranger.pid!)
    const earlier = `${startTimeOf(stranger.pid!)}0`
    assert.equal(
      adoptProcess(stranger.pid!, pid => isRunning({ pid, startTime: earlier })),
      undefined,
    )
  })

  test('a process that takes over the id later gets no signal', async () => {
    const stranger = await ready()
    let isOurs = true
    const adopted = adoptProcess(stranger.pid, () => isOurs)!
    isOurs = false
    adopted.signal('SIGKILL')
    assert.equal(adopted.hasExited(), true)
    stranger.signal('SIGTERM')
    assert.equal(await stranger.exited, 'signal SIGTERM')
  })
})

describe('supervision', () => {
  interface Recorded {
    supervisor: Supervisor
    events: string[]
    pauses: number[]
    /** The child that runs now. */
    child(): LaunchedChild
  }
  const supervisors: Supervisor[] = []
  afterEach(async () => {
    for (const supervisor of supervisors.splice(0)) await supervisor.stop()
  })
  const eventually = async (holds: () => boolean) => {
    while (!holds()) await sleep(1)
  }

  const stoppedClock: Clock = { now: () => 0, pause: async () => {} }

  async function start({ clock = stoppedClock, ...over }: Partial<Supervision> = {}): Promise<Recorded> {
    const events: string[] = []
    const pauses: number[] = []
    let child = await ready()
    const supervisor = supervise(child, {
      async restart(signal) {
        child = await ready({ signal })
        return child
      },
      onExit: how => events.push(how),
      onRestarted: () => events.push('restarted'),
      onRestartFailed: error => events.push((error as Error).message),
      backoffMs: [1, 2, 4],
      ...over,
      clock: {
        now: clock.now,
        pause(ms, signal) {
          pauses.push(ms)
          return clock.pause(ms, signal)
        },
      },
    })
    supervisors.push(supervisor)
    return { supervisor, events, pauses, child: () => child }
  }

  async function crash({ child, events }: Recorded): Promise<void> {
    const before = events.filter(event => event === 'restarted').length
    child().signal('SIGKILL')
    await eventually(() => events.filter(event => event === 'restarted').length > before)
  }

  test('a child that crashes is started again, after pauses that grow up to the last one', async () => {
    const started = await start()
    for (let round = 0; round < 4; round++) await crash(started)
    assert.deepEqual(started.pauses, [1, 2, 4, 4])
    assert.deepEqual(started.events.slice(0, 2), ['signal SIGKILL', 'restarted'])
    assert.deepEqual(started.supervisor.health(), {
      state: 'running',
      restarts: 4,
      lastExit: 'signal SIGKILL',
    })
  })

  test('a child that has run stably begins the pauses again', async () => {
    let now = 0
    const started = await start({ stableAfterMs: 100, clock: { now: () => now, pause: async () => {} } })
    await crash(started)
    await crash(started)
    now += 101
    await crash(started)
    await crash(started)
    assert.deepEqual(started.pauses, [1, 2, 1, 2])
  })

  test('a restart that fails is tried again after a longer pause', async () => {
    let failures = 2
    const started = await start({
      async restart(signal) {
        if (failures-- > 0) throw new Error('no port')
        return ready({ signal })
      },
    })
    await crash(started)
    assert.deepEqual(started.pauses, [1, 2, 4])
    assert.deepEqual(started.events, ['signal SIGKILL', 'no port', 'no port', 'restarted'])
  })

  test('the health says that a child is being restarted', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const started = await start({ clock: { now: () => 0, pause: () => promise } })
    started.child().signal('SIGKILL')
    await eventually(() => started.events.length > 0)
    assert.equal(started.supervisor.health().state, 'restarting')
    resolve()
    await eventually(() => started.supervisor.health().state === 'running')
  })

  test('a stop ends the child and starts no other', async () => {
    const started = await start()
    await started.supervisor.stop()
    assert.equal(started.child().hasExited(), true)
    assert.deepEqual([started.events, started.pauses], [[], []])
    assert.equal(started.supervisor.health().state, 'stopped')
    await started.supervisor.stop()
  })

  test('a stop during the pause before a restart starts no other', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    let restarts = 0
    const started = await start({
      clock: { now: () => 0, pause: () => promise },
      restart(signal) {
        restarts++
        return ready({ signal })
      },
    })
    started.child().signal('SIGKILL')
    await eventually(() => started.pauses.length > 0)
    const stopped = started.supervisor.stop()
    resolve()
    await stopped
    assert.equal(restarts, 0)
  })

  test('a stop during a restart undoes it', async () => {
    let starting: Child | undefined
    const handshake: Launch['handshake'] = async (child, signal) => {
      starting = child
      await once(child.process, 'message', { signal })
    }
    const started = await start({ restart: signal => launch(options(staysUp, { handshake, signal })) })
    started.child().signal('SIGKILL')
    await eventually(() => starting !== undefined)
    await started.supervisor.stop()
    assert.equal(starting!.hasExited(), true)
    assert.deepEqual(started.events, ['signal SIGKILL'])
  })
})

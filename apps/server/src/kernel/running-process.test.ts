import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { after, test } from 'node:test'
import { makeZombie, statOf } from '../../test/zombie.ts'
import { isRunning, startTimeOf } from './running-process.ts'

const undo: (() => unknown)[] = []
after(() => {
  for (const step of undo) step()
})

test('the current process runs, and its start time is the one in /proc', () => {
  assert.equal(isRunning({ pid: process.pid }), true)
  assert.equal(startTimeOf(process.pid), statOf(process.pid).startTime)
  assert.equal(isRunning({ pid: process.pid, startTime: statOf(process.pid).startTime }), true)
})

test('a process that has ended and was reaped does not run', () => {
  assert.equal(isRunning({ pid: spawnSync('true').pid }), false)
})

test('a zombie does not count as running, although its pid is taken', async () => {
  const { parent, pid } = await makeZombie()
  undo.push(() => parent.kill('SIGKILL'))
  assert.equal(process.kill(pid, 0), true, 'the pid is still taken')
  assert.equal(isRunning({ pid }), false)
  assert.equal(isRunning({ pid, startTime: statOf(pid).startTime }), false)
})

test('a process with the same pid but another start time does not count as running', () => {
  const other = spawn('sleep', ['60'])
  undo.push(() => other.kill('SIGKILL'))
  const { startTime } = statOf(other.pid!)
  assert.equal(isRunning({ pid: other.pid!, startTime }), true)
  assert.equal(isRunning({ pid: other.pid!, startTime: `${startTime}0` }), false)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkOf } from '#src/kernel/http/network-of.ts'
import { addressOf, isWorkerAddress } from './platform-socket.ts'

test('platform socket: the functions of each project have a network of their own, which is known', () => {
  const [first, second] = [addressOf('one'), addressOf('two')]
  assert.notEqual(networkOf(first), networkOf(second))
  assert.ok(isWorkerAddress(first) && isWorkerAddress(second))
  for (const address of ['127.0.0.1', '::1', 'fd00::1', '2001:db8::1']) assert.ok(!isWorkerAddress(address))
})

import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { createClientAddress } from './client-address.ts'

const from = (remoteAddress: string, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage

test('client address: without trusted proxies the header does not count', () => {
  assert.equal(createClientAddress([])(from('198.51.100.7', '203.0.113.9')), '198.51.100.7')
})

test('client address: behind trusted proxies it is the last address that is not one of them', () => {
  const addressOf = createClientAddress(['10.0.0.0/8', '::1'])
  assert.equal(addressOf(from('10.1.2.3', '203.0.113.9')), '203.0.113.9')
  assert.equal(addressOf(from('::ffff:10.1.2.3', '203.0.113.9, 10.0.0.2')), '203.0.113.9')
  assert.equal(addressOf(from('10.1.2.3', '1.2.3.4, 203.0.113.9')), '203.0.113.9')
  assert.equal(addressOf(from('203.0.113.1', '198.51.100.1')), '203.0.113.1')
  assert.equal(addressOf(from('10.1.2.3', 'not an address')), '10.1.2.3')
  assert.equal(addressOf(from('10.1.2.3')), '10.1.2.3')
})

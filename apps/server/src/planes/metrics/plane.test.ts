import assert from 'node:assert/strict'
import { test } from 'node:test'
import { metricsApi } from '@plinth/contract/metrics.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import { metricsPlane } from './plane.ts'

const token = 'f3b1c09d7e5a42468f7c0a9be1d25d3b'

/** The status of the refusal, or 200. */
function statusOf(ip: string, headers: Record<string, string> = {}, expected?: string): number {
  try {
    void metricsPlane(expected).admit(metricsApi.read, { ip, headers } as unknown as RequestHead, () => {})
    return 200
  } catch (error) {
    assert.ok(error instanceof Refusal)
    return error.status
  }
}

test('metrics: without a token only this machine may read them', () => {
  for (const ip of ['127.0.0.1', '127.8.9.1', '::1', '::ffff:127.0.0.1']) assert.equal(statusOf(ip), 200, ip)
  for (const ip of ['10.0.0.1', '128.0.0.1', '0.0.0.0', '::', '::2', '::ffff:10.0.0.1', 'fd70:6c69::1', ''])
    assert.equal(statusOf(ip), 404, ip)
})

test('metrics: without a token a request that a proxy has forwarded is refused', () => {
  for (const name of [
    'forwarded',
    'via',
    'x-forwarded-for',
    'x-forwarded-host',
    'x-forwarded-proto',
    'x-forwarded',
    'x-real-ip',
    'x-client-ip',
    'x-cluster-client-ip',
    'x-original-forwarded-for',
    'true-client-ip',
    'cf-connecting-ip',
    'x-envoy-external-address',
  ])
    assert.equal(statusOf('127.0.0.1', { [name]: '' }), 404, name)
  const usual = { host: 'localhost', 'user-agent': 'Prometheus/3', accept: '*/*', 'x-request-id': 'a' }
  assert.equal(statusOf('127.0.0.1', usual), 200)
})

test('metrics: with a token the request must have it, from anywhere', () => {
  const bearer = (text: string) => ({ authorization: `Bearer ${text}`, 'x-forwarded-for': '10.0.0.1' })
  assert.equal(statusOf('10.0.0.1', bearer(token), token), 200)
  assert.equal(statusOf('127.0.0.1', {}, token), 401)
  for (const wrong of ['', 'x', `${token}x`, token.slice(1), token.toUpperCase(), `${token} ${token}`])
    assert.equal(statusOf('127.0.0.1', bearer(wrong), token), 401, wrong)
  assert.equal(statusOf('127.0.0.1', { authorization: `Basic ${token}` }, token), 401)
})

import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { mock, test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { arriving, metadataFromText } from './upload-body.ts'

test('a body that brings nothing for long counts as cut off, and one that is not asked for does not', async () => {
  mock.timers.enable({ apis: ['setTimeout'] })
  try {
    const body = new PassThrough()
    const chunks = arriving(body)
    const first = chunks.next()
    mock.timers.tick(29_000)
    body.write('some')
    assert.equal(String((await first).value), 'some')
    // Whoever stores it may take its time.
    mock.timers.tick(100_000)
    assert.equal(body.destroyed, false)
    const second = chunks.next()
    mock.timers.tick(29_000)
    body.write('more')
    assert.equal(String((await second).value), 'more')
    const third = chunks.next()
    mock.timers.tick(30_000)
    await assert.rejects(third, error => error instanceof Refusal && error.code === 'client_closed_request')
    assert.equal(body.destroyed, true)
  } finally {
    mock.timers.reset()
  }
})

test('metadata of a file has at most 10,000 values', () => {
  const list = (count: number) => `{"list":[${Array(count).fill('1234567').join()}]}`
  assert.ok(metadataFromText(list(9_998)))
  assert.throws(() => metadataFromText(list(10_000)), { status: 400 })
})

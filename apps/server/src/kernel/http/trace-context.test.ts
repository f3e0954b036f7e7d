import assert from 'node:assert/strict'
import { test } from 'node:test'
import { traceIdOf } from './trace-context.ts'

const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
const parent = '00f067aa0ba902b7'

test('trace context: the trace id of a valid traceparent', () => {
  assert.equal(traceIdOf(`00-${trace}-${parent}-01`), trace)
  assert.equal(traceIdOf(`00-${trace}-${parent}-00`), trace)
  // A later version may have more fields.
  assert.equal(traceIdOf(`01-${trace}-${parent}-01`), trace)
  assert.equal(traceIdOf(`cc-${trace}-${parent}-01-what-the-future-brings`), trace)
})

test('trace context: an invalid traceparent is ignored', () => {
  const invalid = [
    undefined,
    '',
    trace,
    `ff-${trace}-${parent}-01`,
    `0-${trace}-${parent}-01`,
    `00-${'0'.repeat(32)}-${parent}-01`,
    `00-${trace}-${'0'.repeat(16)}-01`,
    `00-${trace.toUpperCase()}-${parent}-01`,
    `00-${trace.slice(1)}g-${parent}-01`,
    `00-${trace}-${parent}-1`,
    `00-${trace}-${parent}-01-more`,
    `01-${trace}-${parent}-01more`,
    ` 00-${trace}-${parent}-01`,
    `00-${trace}-${parent}-01\n`,
    // Node joins repeated headers.
    `00-${trace}-${parent}-01, 00-${trace}-${parent}-01`,
    [`00-${trace}-${parent}-01`],
  ]
  for (const header of invalid) assert.equal(traceIdOf(header), null, String(header))
})

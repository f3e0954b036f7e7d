import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeNodeMessage, encodeNodeMessage, type NodeMessage } from './node-messages.ts'

const messages: NodeMessage[] = [
  { kind: 'broadcast', space: 'oroom', event: 'e', isJson: false, payload: Buffer.from([0, 255]), meta: '' },
  { kind: 'presence', space: 'proom', joins: [['k', 'r', '{"phx_ref":"r"}']], leaves: ['q'] },
  { kind: 'state', isAsking: true, spaces: [['oroom', [['k', 'r', '{}']]]] },
]
for (const message of messages)
  test(`node messages: ${message.kind} survives encoding`, () =>
    assert.deepEqual(decodeNodeMessage(encodeNodeMessage(message)), message))

test('node messages: malformed messages and unknown kinds are ignored', () => {
  const encoded = (value: unknown) => {
    const json = Buffer.from(JSON.stringify(value))
    return Buffer.concat([Buffer.from([0, 0, 0, json.length]), json])
  }
  for (const bytes of [
    Buffer.alloc(0),
    Buffer.from([255, 255, 255, 255, 1]),
    Buffer.from([0, 0, 0, 1, 0x7b]),
    encoded(null),
    encoded({ kind: 'other' }),
    encoded({ kind: 'broadcast', space: 1 }),
    encoded({ kind: 'presence', space: 'o', joins: [1], leaves: [] }),
    encoded({ kind: 'state', spaces: [['o', [['k', 1, '{}']]]] }),
  ])
    assert.equal(decodeNodeMessage(bytes), undefined, bytes.toString())
})

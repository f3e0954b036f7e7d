import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeFromNode, encodeForNodes, type NodeMessage } from './between-nodes.ts'

const messages: NodeMessage[] = [
  { kind: 'broadcast', space: 'oroom', event: 'e', isJson: false, payload: Buffer.from([0, 255]), meta: '' },
  { kind: 'presence', space: 'proom', joins: [['k', 'r', '{"phx_ref":"r"}']], leaves: ['q'] },
  { kind: 'state', isAsking: true, spaces: [['oroom', [['k', 'r', '{}']]]] },
]
for (const message of messages)
  test(`${message.kind} arrives as it was told`, () =>
    assert.deepEqual(decodeFromNode(encodeForNodes(message)), message))

test('what another version may say is nothing', () => {
  const told = (value: unknown) => {
    const json = Buffer.from(JSON.stringify(value))
    return Buffer.concat([Buffer.from([0, 0, 0, json.length]), json])
  }
  for (const bytes of [
    Buffer.alloc(0),
    Buffer.from([255, 255, 255, 255, 1]),
    Buffer.from([0, 0, 0, 1, 0x7b]),
    told(null),
    told({ kind: 'other' }),
    told({ kind: 'broadcast', space: 1 }),
    told({ kind: 'presence', space: 'o', joins: [1], leaves: [] }),
    told({ kind: 'state', spaces: [['o', [['k', 1, '{}']]]] }),
  ])
    assert.equal(decodeFromNode(bytes), undefined, bytes.toString())
})

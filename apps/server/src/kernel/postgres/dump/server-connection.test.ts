import assert from 'node:assert/strict'
import { test } from 'node:test'
import { message } from '../wire/encoder.ts'
import { withoutChannelBinding } from './server-connection.ts'

const saslMethods = 10
const nothing = Buffer.from([0])
const offer = (...names: string[]) => message('R', saslMethods, ...names, nothing)

/** What the receiver gets when the server sends the bytes in pieces of this size. */
function received(bytes: Buffer, pieceBytes: number): Buffer {
  const pieces: Buffer[] = []
  const receive = withoutChannelBinding(piece => pieces.push(Buffer.from(piece)))
  for (let at = 0; at < bytes.length; at += pieceBytes) receive(bytes.subarray(at, at + pieceBytes))
  return Buffer.concat(pieces)
}

test('server connection: the login method that needs TLS in libpq is removed, however the message is split', () => {
  const next = message('S', 'SCRAM-SHA-256-PLUS', 'value')
  for (const pieceBytes of [1, 4, 7, 1000])
    assert.deepEqual(
      received(Buffer.concat([offer('SCRAM-SHA-256-PLUS', 'SCRAM-SHA-256'), next]), pieceBytes),
      Buffer.concat([offer('SCRAM-SHA-256'), next]),
    )
})

test('server connection: any other first message is not changed', () => {
  const next = message('S', 'SCRAM-SHA-256-PLUS', 'value')
  for (const first of [offer('SCRAM-SHA-256'), message('R', 0), message('E', 'SCRAM-SHA-256-PLUS')])
    for (const pieceBytes of [1, 1000]) {
      const sent = Buffer.concat([first, next])
      assert.deepEqual(received(sent, pieceBytes), sent)
    }
})

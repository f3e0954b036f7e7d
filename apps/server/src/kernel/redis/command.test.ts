import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeCommand } from './command.ts'

test('a command is encoded with the number of its arguments and their lengths in bytes', () => {
  assert.equal(encodeCommand(['GET', 'a']), '*2\r\n$3\r\nGET\r\n$1\r\na\r\n')
  assert.equal(encodeCommand(['GET', '日😀\r\n']), '*2\r\n$3\r\nGET\r\n$9\r\n日😀\r\n\r\n')
  assert.equal(encodeCommand(['']), '*1\r\n$0\r\n\r\n')
})

test('arguments that are bytes are encoded unchanged', () => {
  const bytes = Buffer.from([0xff, 0, 13, 10])
  assert.deepEqual(
    encodeCommand(['UNLINK', bytes, 'ü']),
    Buffer.concat([Buffer.from('*3\r\n$6\r\nUNLINK\r\n$4\r\n'), bytes, Buffer.from('\r\n$2\r\nü\r\n')]),
  )
})

import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { test } from 'node:test'
import { scramExchange, scramVerifier } from './scram.ts'

const salt = Buffer.from('0123456789abcdef')
const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** The server's side, as Postgres does it with a stored verifier. */
function server(verifier: string, clientFirst: string) {
  const [, iterations, salt, storedKey, serverKey] = /^SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):(.+)$/.exec(
    verifier,
  )!
  const bare = clientFirst.slice(3)
  const nonce = `${bare.slice(5)}server`
  const first = `r=${nonce},s=${salt},i=${iterations}`
  return {
    first,
    accepts(response: string) {
      const [, withoutProof, proof] = /^(.*),p=(.*)$/.exec(response)!
      const signature = hmac(Buffer.from(storedKey!, 'base64'), `${bare},${first},${withoutProof}`)
      const key = Buffer.from(Buffer.from(proof!, 'base64').map((byte, at) => byte ^ signature[at]!))
      return createHash('sha256').update(key).digest('base64') === storedKey
    },
    final: (response: string) =>
      `v=${hmac(Buffer.from(serverKey!, 'base64'), `${bare},${first},${response.replace(/,p=.*$/, '')}`).toString('base64')}`,
  }
}

test('a verifier accepts the password it was made from, and both sides prove themselves', async () => {
  const exchange = scramExchange('pencil')
  const side = server(await scramVerifier('pencil', salt), exchange.first)
  const response = await exchange.respond(side.first)
  assert.ok(side.accepts(response))
  assert.ok(exchange.isGenuine(side.final(response)))
})

test('a wrong password is rejected, and a server without the verifier is detected', async () => {
  const exchange = scramExchange('pencil')
  const side = server(await scramVerifier('crayon', salt), exchange.first)
  const response = await exchange.respond(side.first)
  assert.ok(!side.accepts(response))
  assert.ok(!exchange.isGenuine(side.final(response)))
  assert.ok(!exchange.isGenuine('v='))
})

test('a challenge with a wrong nonce or too few iterations is rejected', async () => {
  await assert.rejects(scramExchange('x').respond('r=foreign,s=c2FsdA==,i=4096'))
  const exchange = scramExchange('x')
  await assert.rejects(exchange.respond(`r=${exchange.first.slice(8)}more,s=c2FsdA==,i=1`))
})

test('the verifier depends on nothing but the password and the salt', async () => {
  assert.equal(await scramVerifier('pencil', salt), await scramVerifier('pencil', salt))
  assert.notEqual(await scramVerifier('pencil', salt), await scramVerifier('pencil', Buffer.alloc(16)))
  assert.match(
    await scramVerifier('pencil', salt),
    /^SCRAM-SHA-256\$4096:MDEyMzQ1Njc4OWFiY2RlZg==\$[\w+/]{43}=:[\w+/]{43}=$/,
  )
})

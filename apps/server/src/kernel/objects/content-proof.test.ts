import assert from 'node:assert/strict'
import { createHash, hkdfSync, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import {
  type ContentProof,
  checkContent,
  isContentProof,
  macOfContent,
  proofBytes,
  proofOf,
} from './content-proof.ts'

const dataKey = randomBytes(32)
const content = randomBytes(100_000)
const partsOf = (bytes: Buffer, length: number) =>
  Array.from({ length: Math.ceil(bytes.length / length) }, (_, part) =>
    bytes.subarray(part * length, (part + 1) * length),
  )

function macOf(parts: Buffer[], version = 'version'): string {
  const mac = macOfContent(dataKey, version)
  for (const part of parts) mac.update(part)
  return mac.end()
}

function holds(proof: ContentProof, parts: Buffer[], version = 'version'): boolean {
  const check = checkContent(dataKey, version, proof)
  for (const part of parts) check.update(part)
  return check.end()
}

test('content proof: it is the AES-GCM tag of the whole content, after the nonce', async () => {
  const mac = Buffer.from(macOf(partsOf(content, 777)), 'hex')
  const key = hkdfSync('sha256', dataKey, 'version', 'plinth content', 32)
  const tag = await crypto.subtle.encrypt(
    { name: 'AES-GCM', iv: mac.subarray(0, 12), additionalData: content },
    await crypto.subtle.importKey('raw', key, 'AES-GCM', false, ['encrypt']),
    new Uint8Array(),
  )
  assert.deepEqual(mac.subarray(12), Buffer.from(tag))
})

test('content proof: it holds for the same bytes in any parts, and for no others', () => {
  const proofs: Record<string, ContentProof> = {
    mac: { mac: macOf([content]) },
    'hash of an earlier release': { sha256: createHash('sha256').update(content).digest('hex') },
  }
  const changed = Buffer.from(content)
  changed[50_000]! ^= 1
  for (const [name, proof] of Object.entries(proofs)) {
    for (const length of [1000, 65_536, content.length])
      assert.ok(holds(proof, partsOf(content, length)), name)
    for (const other of [[], [changed], [content.subarray(1)], [content, Buffer.alloc(1)]])
      assert.ok(!holds(proof, other), name)
    assert.ok(isContentProof(proof as Record<keyof ContentProof, unknown>))
    assert.ok(holds(proofOf(proofBytes(proof)), [content]), name)
  }
  assert.ok(holds({ mac: macOf([]) }, []))
})

test('content proof: a MAC holds for its file only, and differs each time', () => {
  assert.ok(!holds({ mac: macOf([content]) }, [content], 'other'))
  assert.notEqual(macOf([content]), macOf([content]))
})

test('content proof: other values are no proof', () => {
  const mac = macOf([])
  for (const value of [
    {},
    { mac: mac.slice(2) },
    { mac: `${mac}00` },
    { mac: `${mac.slice(1)}g` },
    { mac: 1 },
  ])
    assert.ok(!isContentProof({ mac: undefined, sha256: undefined, ...value }), JSON.stringify(value))
})

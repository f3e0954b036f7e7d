// Creates a self-signed certificate for one name. It is also an authority, so a test can trust it.
import { createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

export interface Certificate {
  key: string
  cert: string
}

const der = (tag: number, ...parts: Buffer[]): Buffer => {
  const body = Buffer.concat(parts)
  const length =
    body.length < 128 ? Buffer.from([body.length]) : Buffer.from([0x82, body.length >> 8, body.length & 0xff])
  return Buffer.concat([Buffer.from([tag]), length, body])
}
const sequence = (...parts: Buffer[]) => der(0x30, ...parts)
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))
const integer = (bytes: Buffer) => der(0x02, bytes)
const bits = (bytes: Buffer) => der(0x03, Buffer.from([0]), bytes)
const time = (date: Date) =>
  der(0x17, Buffer.from(`${date.toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`))

const ecdsaWithSha256 = sequence(oid('2a8648ce3d040302'))
const commonName = (name: string) =>
  sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(name)))))
const dnsName = (name: string) => der(0x82, Buffer.from(name))
const isAuthority = sequence(oid('551d13'), der(0x04, sequence(der(0x01, Buffer.from([0xff])))))
const isFor = (name: string) => sequence(oid('551d11'), der(0x04, sequence(dnsName(name))))

export function certificateFor(name: string): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  })
  const dayMs = 86_400_000
  const tbsCertificate = sequence(
    der(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    commonName(name),
    sequence(time(new Date(Date.now() - dayMs)), time(new Date(Date.now() + dayMs))),
    commonName(name),
    publicKey,
    der(0xa3, sequence(isAuthority, isFor(name))),
  )
  const signature = sign('sha256', tbsCertificate, createPrivateKey(privateKey))
  const certificate = sequence(tbsCertificate, ecdsaWithSha256, bits(signature)).toString('base64')
  const lines = certificate.match(/.{1,64}/g)!.join('\n')
  return { key: privateKey, cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n` }
}

// What an authenticator app and we agree on (RFC 6238): a secret, a link and a picture that carry it over, and the code
// of six digits that both sides work out from the time.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import qrcode from 'qrcode-generator'

export const stepSeconds = 30
const digits = 6
/** A clock may be off by this many steps, either way. */
const toleratedSteps = 1
const secretBytes = 20

/** In base32, as apps let people type it. */
export const newTotpSecret = (): string => toBase32(randomBytes(secretBytes))

/** A step is the number of half minutes since 1970. */
export function totpCode(secret: string, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const digest = createHmac('sha1', fromBase32(secret)).update(counter).digest()
  const value = digest.readUInt32BE(digest.at(-1)! & 0xf) & 0x7fffffff
  return String(value % 10 ** digits).padStart(digits, '0')
}

/** The step whose code this is, if it is near enough; people type blanks between the digits. */
export function totpStep(secret: string, typed: string, currentStep: number): number | undefined {
  const code = typed.replace(/\s/g, '')
  if (!/^\d{6}$/.test(code)) return
  let matching: number | undefined
  for (let step = currentStep - toleratedSteps; step <= currentStep + toleratedSteps; step++)
    if (timingSafeEqual(Buffer.from(totpCode(secret, step)), Buffer.from(code))) matching = step
  return matching
}

/** How much of a name a link has room for: drawing a large QR code takes its time, and few cameras read it. */
const nameBytes = 192

export const fitsLink = (name: string) => encodeURIComponent(name).length <= nameBytes

/** Names are for the eye: what does not fit is cut. */
function fitted(name: string): string {
  const letters = Array.from(name)
  while (!fitsLink(letters.join(''))) letters.pop()
  return letters.join('')
}

export function totpUri(secret: string, issuer: string, account: string): string {
  // A colon separates the two names, so an issuer that has one is told by the parameter alone.
  const names = issuer.includes(':') ? [account] : [issuer, account]
  const parameters = {
    secret,
    issuer: fitted(issuer),
    algorithm: 'SHA1',
    digits: String(digits),
    period: String(stepSeconds),
  }
  // Not URLSearchParams: several apps show its plus signs as they are.
  const query = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return `otpauth://totp/${names.map(name => encodeURIComponent(fitted(name))).join(':')}?${query.join('&')}`
}

/** SVG without a `#`, which would end the data URI that clients make of it. */
export function qrCodeSvg(text: string): string {
  const code = qrcode(0, 'L')
  code.addData(text, 'Byte')
  code.make()
  return code.createSvgTag({ cellSize: 4, margin: 16, scalable: true })
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Five bits a letter, without padding: apps do not expect any. */
export function toBase32(bytes: Uint8Array): string {
  const bits = Array.from(bytes, byte => byte.toString(2).padStart(8, '0')).join('')
  return (bits.match(/.{1,5}/g) ?? [])
    .map(group => alphabet[Number.parseInt(group.padEnd(5, '0'), 2)])
    .join('')
}

export function fromBase32(text: string): Buffer {
  const bits = Array.from(text.toUpperCase().replace(/=+$/, ''), letter => {
    const value = alphabet.indexOf(letter)
    if (value < 0) throw new Error('A secret of a second factor is not base32')
    return value.toString(2).padStart(5, '0')
  }).join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map(byte => Number.parseInt(byte, 2)))
}

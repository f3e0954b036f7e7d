// Validates names of buckets and objects. Names never reach a file system. The rejected ones would be read as another name
// by browsers, proxies, or policies that compare folders.
import { storageRefusal } from './refusals.ts'

const key = /^[\w/!\-.*'() &$=@;:+,?]+$/
const maxKeyLength = 1024
const bucketName = /^[\w!\-.*'() &$=@;:+,?]{1,100}$/

const isSpelt = (name: string) => key.test(name) && name.length <= maxKeyLength
const hasParts = (name: string) => name.split('/').every(part => part !== '' && part !== '.' && part !== '..')

export const isKey = (name: string): boolean => isSpelt(name) && hasParts(name)

export function checkKey(name: string): string {
  if (isKey(name)) return name
  throw storageRefusal('InvalidKey', `Invalid key: ${shown(name)}`, {
    hint: isSpelt(name)
      ? 'No part between slashes may be empty, "." or "..".'
      : `A name has 1 to ${maxKeyLength} letters (A to Z), digits, spaces or characters of _/!-.*'()&$=@;:+,?`,
  })
}

export function checkBucketName(name: string): string {
  if (!bucketName.test(name) || name.trim() !== name || name === '.' || name === '..')
    throw storageRefusal('InvalidBucketName', `Bucket name invalid: ${shown(name)}`, {
      hint: "A bucket name has 1 to 100 letters (A to Z), digits, inner spaces or characters of _!-.*'()&$=@;:+,?",
    })
  return name
}

const shown = (name: string) => (name.length > 100 ? `${name.slice(0, 100)}…` : name)

/** Buckets in which every user has a private folder, named by the user's id. */
export const isUserBucket = (bucket: string) => bucket.startsWith('user-')

export const isInOwnFolder = (name: string, userId: string) => userId !== '' && name.startsWith(`${userId}/`)

const sizeText = /^(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB)?$/i
const units = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 }

/** Parses a number of bytes or a text like `20MB`. */
export function bytesFrom(size: number | string): number {
  const [, number, unit] = sizeText.exec(String(size).trim()) ?? []
  const bytes = Math.floor(Number(number) * units[(unit ?? 'B').toUpperCase() as keyof typeof units])
  if (number === undefined || !Number.isSafeInteger(bytes))
    throw storageRefusal(
      'InvalidRequest',
      'file_size_limit is a number of bytes, or a text like 20MB, 1GB or 30KB',
    )
  return bytes
}

/** `image/png` matches `image/png` and `image/*`. Parameters after the type are ignored. */
export function isTypeAllowed(contentType: string, allowed: readonly string[]): boolean {
  const type = contentType.split(';', 1)[0]!.trim().toLowerCase()
  return allowed.some(each => {
    const entry = each.split(';', 1)[0]!.trim().toLowerCase()
    return entry === '*/*' || entry === type || (entry.endsWith('/*') && type.startsWith(entry.slice(0, -1)))
  })
}

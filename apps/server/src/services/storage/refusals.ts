// Errors of storage, with the codes that storage-js knows and the matching HTTP status.
import type { ErrorCode } from '@plinth/contract/errors.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Failure } from '#src/kernel/http/plane.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { refusalFromTenantCode } from '#src/planes/data/database-refusal.ts'
import type { DataError } from '#src/planes/data/plane.ts'

/** The value of `error` in the body, by code. */
const shortNames = {
  NoSuchBucket: 'Bucket not found',
  NoSuchKey: 'not_found',
  NoSuchUpload: 'not_found',
  KeyAlreadyExists: 'Duplicate',
  BucketAlreadyExists: 'Duplicate',
  ResourceNotEmpty: 'Duplicate',
  AccessDenied: 'Unauthorized',
  InvalidJWT: 'InvalidJWT',
  InvalidSignature: 'InvalidSignature',
  ExpiredToken: 'ExpiredToken',
  InvalidBucketName: 'Invalid Input',
  InvalidKey: 'InvalidKey',
  InvalidRequest: 'invalid_request',
  EntityTooLarge: 'Payload too large',
  InvalidMimeType: 'invalid_mime_type',
  InvalidRange: 'invalid_range',
  ResourceLocked: 'ResourceLocked',
  OffsetConflict: 'OffsetConflict',
  UnsupportedTusVersion: 'UnsupportedTusVersion',
  storage_quota_exceeded: 'storage_quota_exceeded',
  database_quota_exceeded: 'database_quota_exceeded',
  disk_reserve_reached: 'disk_reserve_reached',
  SlowDown: 'SlowDown',
  StorageFull: 'StorageFull',
  FileDamaged: 'FileDamaged',
  FilesUnavailable: 'FilesUnavailable',
} as const satisfies Partial<Record<ErrorCode, string>>
export type StorageCode = keyof typeof shortNames

const signAgain = 'POST object/sign makes a URL to download, POST object/upload/sign one to upload.'

/** Next steps. Many messages have a text that clients depend on, so the hint is separate. */
const hints: Partial<Record<StorageCode, string>> = {
  NoSuchBucket: 'POST bucket creates one; GET bucket lists those that this caller may see.',
  NoSuchKey:
    'There is none, or this caller may not see it; a policy on storage.objects or a signed URL lets it.',
  KeyAlreadyExists: 'Choose another name; uploads and copies with x-upsert: true replace what is there.',
  BucketAlreadyExists: 'Choose another id, or change the bucket with PUT bucket/<bucket>.',
  InvalidJWT: signAgain,
  InvalidSignature: signAgain,
  ExpiredToken: signAgain,
  storage_quota_exceeded: 'Delete files, or raise max_storage_size_mb of the project.',
}

export const storageRefusal = (
  code: StorageCode,
  message: string,
  extras: ConstructorParameters<typeof Refusal>[2] = {},
) => new Refusal(code, message, { hint: hints[code] ?? '', ...extras })

/** Codes of the data plane, translated to codes that storage clients know. */
const translated: Readonly<Record<string, StorageCode>> = {
  invalid_request: 'InvalidRequest',
  invalid_json: 'InvalidRequest',
  body_too_large: 'EntityTooLarge',
}

export function storageWording(body: DataError, failure: Failure) {
  const code = translated[failure.code] ?? failure.code
  const short = (shortNames as Record<string, string>)[code] ?? body.error
  const quota = /^(?:storage|database)_quota_exceeded$/.test(code)
    ? (JSON.parse(failure.details) as object)
    : undefined
  return {
    body: { ...body, code, error: short, ...(quota && { ...quota, details: '' }) },
    headers: {},
  }
}

export const noSuchKey = () => storageRefusal('NoSuchKey', 'Object not found')
export const noSuchBucket = () => storageRefusal('NoSuchBucket', 'Bucket not found')
export const denied = (message: string, hint = '') => storageRefusal('AccessDenied', message, { hint })

export const quotaExceeded = (bucket: string, usedBytes: number, limitBytes: number) =>
  storageRefusal(
    'storage_quota_exceeded',
    `The files of this project may take ${limitBytes} bytes, and ${usedBytes} are taken`,
    {
      details: JSON.stringify({ bucket, used_bytes: usedBytes, limit_bytes: limitBytes }),
    },
  )

const bucketLimit = 'It is the file_size_limit of the bucket: PUT bucket/<bucket> changes it.'
export const tooLarge = (limitBytes: number, hint = bucketLimit) =>
  storageRefusal('EntityTooLarge', `The object exceeded the maximum allowed size of ${limitBytes} bytes`, {
    hint,
  })

const uniqueViolation = '23505'
const foreignKeyViolation = '23503'
const noRight = '42501'
const userBucketCheck = 'user_buckets_are_private'

/** Translates a Postgres error about a row of storage.objects or storage.buckets. */
export function fromSql(error: unknown, what: 'object' | 'bucket'): unknown {
  if (!(error instanceof DatabaseError)) return error
  switch (error.code) {
    case uniqueViolation:
      return what === 'object'
        ? storageRefusal('KeyAlreadyExists', 'The resource already exists')
        : storageRefusal('BucketAlreadyExists', 'The resource already exists')
    case foreignKeyViolation:
      return what === 'object'
        ? noSuchBucket()
        : storageRefusal('ResourceNotEmpty', 'The bucket you tried to delete is not empty', {
            hint: 'Empty it first with POST bucket/<bucket>/empty.',
          })
    case noRight:
      return denied(
        error.message,
        `A policy on storage.${what}s must allow it to this caller; the service_role key needs none.`,
      )
    default:
      if (error.constraint === userBucketCheck) return userBucketIsPrivate()
      return refusalFromTenantCode(error)
  }
}

export const userBucketIsPrivate = () =>
  storageRefusal('InvalidRequest', 'A bucket whose name begins with user- cannot be public')

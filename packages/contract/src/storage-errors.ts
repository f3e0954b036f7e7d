// Error codes of Storage, as its clients know them.
import type { ErrorMeaning } from './error-meaning.ts'

export const storageErrors = {
  InvalidKey: {
    status: 400,
    meaning: 'Storage: the name of the object has characters or parts that are not allowed.',
  },
  InvalidBucketName: { status: 400, meaning: 'Storage: the name of the bucket is not allowed.' },
  InvalidRequest: {
    status: 400,
    meaning: 'Storage: the request is invalid; the message says what is wrong.',
  },
  InvalidJWT: {
    status: 400,
    meaning: 'Storage: the token of a signed URL is missing, malformed or not signed by this project.',
  },
  InvalidSignature: {
    status: 400,
    meaning: 'Storage: the token of a signed URL is for another object, or for another purpose.',
  },
  ExpiredToken: { status: 400, meaning: 'Storage: the signed URL has expired; sign a new one.' },
  AccessDenied: {
    status: 403,
    meaning: 'Storage: no policy allows the request, or the folder belongs to another user.',
  },
  NoSuchBucket: { status: 404, meaning: 'Storage: there is no such bucket, or the caller may not see it.' },
  NoSuchKey: { status: 404, meaning: 'Storage: there is no such object, or the caller may not see it.' },
  NoSuchUpload: { status: 404, meaning: 'Storage: there is no such resumable upload; it may have expired.' },
  KeyAlreadyExists: {
    status: 409,
    meaning: 'Storage: there is an object with this name; x-upsert: true replaces it.',
  },
  BucketAlreadyExists: { status: 409, meaning: 'Storage: there is a bucket with this name.' },
  ResourceNotEmpty: { status: 409, meaning: 'Storage: the bucket contains objects; empty it first.' },
  OffsetConflict: {
    status: 409,
    meaning: 'Storage: Upload-Offset is not the offset of the upload; HEAD returns it.',
  },
  UnsupportedTusVersion: { status: 412, meaning: 'Storage: Tus-Resumable must be 1.0.0.' },
  EntityTooLarge: {
    status: 413,
    meaning: 'Storage: the object exceeds the size limit of the bucket or of one request.',
  },
  storage_quota_exceeded: {
    status: 413,
    meaning:
      'Storage: the files of the project would take more than its quota `max_storage_size_mb`; nothing was stored.',
  },
  InvalidMimeType: { status: 415, meaning: 'Storage: the bucket does not accept files of this type.' },
  InvalidRange: {
    status: 416,
    meaning: 'Storage: the requested range is outside the object; Content-Range has its size.',
  },
  ResourceLocked: { status: 423, meaning: 'Storage: another request is appending to this upload right now.' },
  SlowDown: {
    status: 429,
    meaning:
      'Storage: too many images of the project wait to be rendered; retry after the number of seconds in `Retry-After`.',
  },
  FileDamaged: { status: 500, meaning: 'Storage: the stored file was modified or is incomplete.' },
  FilesUnavailable: {
    status: 503,
    meaning: 'Storage: the file storage cannot be reached at the moment.',
  },
  StorageFull: {
    status: 507,
    meaning: 'Storage: the disk for files is full; nothing was stored.',
  },
} as const satisfies Record<string, ErrorMeaning>

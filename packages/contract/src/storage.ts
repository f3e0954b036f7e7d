// Files of a project, natively and as storage-js calls them. Bodies of uploads and answers of downloads are bytes.
import type { Static, TSchema } from 'typebox'
import type { DataRoute, Method, Role, Routes } from './route.ts'
import { Id, Nullable, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

const everyone = ['anon', 'authenticated', 'service_role'] as const satisfies Role[]

const Bytes = Type.Unknown({ description: 'The bytes of the file.' })
const Size = Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.String()], {
  description: 'Bytes, or a text like 20MB, 1GB, 30KB.',
})
const MimeTypes = Type.Array(Type.String({ maxLength: 255 }), {
  maxItems: 100,
  description: 'Such as image/png or image/*.',
})

export const Bucket = Type.Object({
  id: Type.String(),
  name: Type.String(),
  owner: Type.String({ description: 'Id of the user who made it, or empty.' }),
  public: Type.Boolean(),
  type: Type.String(),
  file_size_limit: Nullable(Type.Integer()),
  allowed_mime_types: Nullable(Type.Array(Type.String())),
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type Bucket = Static<typeof Bucket>

const bucketWish = {
  public: Type.Optional(Nullable(Type.Boolean())),
  file_size_limit: Type.Optional(Nullable(Size)),
  allowed_mime_types: Type.Optional(Nullable(MimeTypes)),
  type: Type.Optional(Type.String()),
}
export const BucketWish = Type.Object({
  id: Type.Optional(Type.String()),
  name: Type.Optional(Type.String()),
  ...bucketWish,
})
export type BucketWish = Static<typeof BucketWish>

export const StoredObject = Type.Object({
  id: Type.String(),
  bucket_id: Type.String(),
  name: Type.String(),
  owner: Nullable(Type.String()),
  owner_id: Nullable(Type.String()),
  version: Type.String(),
  created_at: Timestamp,
  updated_at: Timestamp,
  last_accessed_at: Nullable(Timestamp),
  metadata: Type.Unknown(),
  user_metadata: Type.Unknown(),
})
export type StoredObject = Static<typeof StoredObject>

export const Transform = Type.Object({
  width: Type.Optional(Type.Integer({ minimum: 0 })),
  height: Type.Optional(Type.Integer({ minimum: 0 })),
  resize: Type.Optional(Type.String()),
  quality: Type.Optional(Type.Integer()),
  format: Type.Optional(Type.String()),
})

const Message = Type.Object({ message: Type.String() })
const Seconds = Type.Integer({ minimum: 1, maximum: 3_155_760_000 })
const SortBy = Type.Object({
  column: Type.Optional(Type.String()),
  order: Type.Optional(Type.String()),
})
const Carrying = Type.Object({
  bucketId: Type.String(),
  sourceKey: Type.String(),
  destinationKey: Type.String(),
  destinationBucket: Type.Optional(Nullable(Type.String())),
  copyMetadata: Type.Optional(Type.Boolean()),
  metadata: Type.Optional(
    Nullable(
      Type.Object({
        cacheControl: Type.Optional(Type.String()),
        mimetype: Type.Optional(Type.String()),
      }),
    ),
  ),
})
export type Carrying = Static<typeof Carrying>

const InBucket = Type.Object({ project: Id, bucket: Type.String() })
const AtPath = Type.Object({ project: Id, bucket: Type.String(), path: Type.String() })
const InProject = Type.Object({ project: Id })
const OfUpload = Type.Object({ project: Id, upload_id: Type.String() })
const text = Type.Optional(Type.String())
const Download = Type.Object({ download: text, token: text })
const Render = Type.Object({
  width: text,
  height: text,
  resize: text,
  quality: text,
  format: text,
  download: text,
  token: text,
})

const at = <M extends Method, P extends TSchema, R extends TSchema>(
  method: M,
  path: string,
  params: P,
  reply: R,
  summary: string,
) =>
  ({
    plane: 'data',
    method,
    path: `/storage/{project}/${path}`,
    params,
    reply,
    allow: everyone,
    summary,
  }) as const satisfies DataRoute

/** Takes or sends bytes. */
const bytes = <M extends Method, P extends TSchema>(method: M, path: string, params: P, summary: string) =>
  ({ ...at(method, path, params, Bytes, summary), raw: true }) as const satisfies DataRoute

const open = { allow: 'open' } as const

export const storageApi = {
  listBuckets: {
    ...at('GET', 'bucket', InProject, Type.Array(Bucket), 'List the buckets the caller may see'),
    query: Type.Object({ limit: text, offset: text, search: text, sortColumn: text, sortOrder: text }),
  },
  createBucket: {
    needsRoom: 'database',
    ...at('POST', 'bucket', InProject, Type.Object({ name: Type.String() }), 'Create a bucket'),
    body: BucketWish,
  },
  readBucket: at('GET', 'bucket/{bucket}', InBucket, Bucket, 'Read a bucket'),
  updateBucket: {
    needsRoom: 'database',
    ...at('PUT', 'bucket/{bucket}', InBucket, Message, 'Change a bucket; what is left out stays'),
    body: BucketWish,
  },
  deleteBucket: at('DELETE', 'bucket/{bucket}', InBucket, Message, 'Delete an empty bucket'),
  emptyBucket: {
    ...at('POST', 'bucket/{bucket}/empty', InBucket, Message, 'Delete all files of a bucket'),
    allow: ['service_role'],
  },

  upload: {
    ...bytes('POST', 'object/{bucket}/{path}', AtPath, 'Upload a file; x-upsert: true replaces one'),
    needsRoom: 'database',
  },
  put: {
    ...bytes('PUT', 'object/{bucket}/{path}', AtPath, 'Upload a file, replacing what is there'),
    needsRoom: 'database',
  },
  download: {
    ...bytes('GET', 'object/{bucket}/{path}', AtPath, 'Download a file'),
    query: Download,
    mayBeOpen: true,
  },
  downloadAuthenticated: {
    ...bytes('GET', 'object/authenticated/{bucket}/{path}', AtPath, 'Download a file with a credential'),
    query: Download,
  },
  downloadPublic: {
    ...bytes('GET', 'object/public/{bucket}/{path}', AtPath, 'Download a file of a public bucket'),
    ...open,
    query: Download,
  },
  downloadSigned: {
    ...bytes('GET', 'object/sign/{bucket}/{path}', AtPath, 'Download a file by a signed URL'),
    ...open,
    query: Download,
  },
  info: {
    ...bytes('GET', 'object/info/{bucket}/{path}', AtPath, 'What is known of a file'),
    mayBeOpen: true,
  },
  infoPublic: {
    ...bytes('GET', 'object/info/public/{bucket}/{path}', AtPath, 'What is known of a public file'),
    ...open,
  },
  infoAuthenticated: bytes(
    'GET',
    'object/info/authenticated/{bucket}/{path}',
    AtPath,
    'What is known of a file, with a credential',
  ),
  remove: at('DELETE', 'object/{bucket}/{path}', AtPath, Message, 'Delete a file'),
  removeMany: {
    ...at('DELETE', 'object/{bucket}', InBucket, Type.Array(StoredObject), 'Delete files by their names'),
    body: Type.Object({ prefixes: Type.Array(Type.String(), { minItems: 1, maxItems: 1000 }) }),
  },
  list: {
    ...at(
      'POST',
      'object/list/{bucket}',
      InBucket,
      Type.Array(Type.Unknown({ description: 'A file, or a folder, whose id is null.' })),
      'List one folder of a bucket',
    ),
    body: Type.Object({
      prefix: Type.Optional(Type.String()),
      limit: Type.Optional(Type.Integer({ minimum: 1 })),
      offset: Type.Optional(Type.Integer({ minimum: 0 })),
      search: Type.Optional(Nullable(Type.String())),
      sortBy: Type.Optional(Nullable(SortBy)),
    }),
  },
  listV2: {
    ...at(
      'POST',
      'object/list-v2/{bucket}',
      InBucket,
      Type.Object({
        hasNext: Type.Boolean(),
        folders: Type.Array(Type.Unknown()),
        objects: Type.Array(Type.Unknown()),
        nextCursor: Type.Optional(Type.String()),
      }),
      'List a bucket page by page',
    ),
    body: Type.Object({
      prefix: Type.Optional(Type.String()),
      limit: Type.Optional(Type.Integer({ minimum: 1 })),
      cursor: Type.Optional(Nullable(Type.String())),
      with_delimiter: Type.Optional(Type.Boolean()),
      sortBy: Type.Optional(Nullable(SortBy)),
    }),
  },
  move: {
    needsRoom: 'database',
    ...at(
      'POST',
      'object/move',
      InProject,
      Type.Object({ message: Type.String(), Id: Type.String(), Key: Type.String() }),
      'Move a file, also to another bucket',
    ),
    body: Carrying,
  },
  copy: {
    needsRoom: 'database',
    ...at(
      'POST',
      'object/copy',
      InProject,
      Type.Object({ Id: Type.String(), Key: Type.String() }, { additionalProperties: true }),
      'Copy a file, also to another bucket',
    ),
    body: Carrying,
  },
  sign: {
    ...at(
      'POST',
      'object/sign/{bucket}/{path}',
      AtPath,
      Type.Object({ signedURL: Type.String() }),
      'Make a URL that downloads the file for a while',
    ),
    body: Type.Object({
      expiresIn: Type.Optional(Seconds),
      expires_in: Type.Optional(Seconds),
      transform: Type.Optional(Nullable(Transform)),
    }),
  },
  signMany: {
    ...at(
      'POST',
      'object/sign/{bucket}',
      InBucket,
      Type.Array(
        Type.Object({
          error: Nullable(Type.String()),
          path: Type.String(),
          signedURL: Nullable(Type.String()),
        }),
      ),
      'Make such URLs for many files',
    ),
    body: Type.Object({
      expiresIn: Type.Optional(Seconds),
      expires_in: Type.Optional(Seconds),
      paths: Type.Array(Type.String(), { minItems: 1, maxItems: 1000 }),
    }),
  },
  signUpload: at(
    'POST',
    'object/upload/sign/{bucket}/{path}',
    AtPath,
    Type.Object({ url: Type.String(), token: Type.String() }),
    'Make a URL that one file can be uploaded to',
  ),
  uploadSigned: {
    needsRoom: 'database',
    ...bytes('PUT', 'object/upload/sign/{bucket}/{path}', AtPath, 'Upload to a signed URL'),
    ...open,
    query: Type.Object({ token: text }),
  },

  renderAuthenticated: {
    ...bytes(
      'GET',
      'render/image/authenticated/{bucket}/{path}',
      AtPath,
      'An image in another size or format',
    ),
    query: Render,
  },
  renderPublic: {
    ...bytes('GET', 'render/image/public/{bucket}/{path}', AtPath, 'The same of a public bucket'),
    ...open,
    query: Render,
  },
  renderSigned: {
    ...bytes('GET', 'render/image/sign/{bucket}/{path}', AtPath, 'The same by a signed URL'),
    ...open,
    query: Render,
  },
  purgeBucket: {
    ...at('DELETE', 'cdn/{bucket}', InBucket, Message, 'Drop cached renders of a bucket'),
    allow: ['service_role'],
  },
  purgeObject: {
    ...at('DELETE', 'cdn/{bucket}/{path}', AtPath, Message, 'Drop cached renders of a file'),
    allow: ['service_role'],
  },

  resumable: { ...bytes('OPTIONS', 'upload/resumable', InProject, 'What of TUS 1.0.0 is served'), ...open },
  createUpload: {
    ...bytes('POST', 'upload/resumable', InProject, 'Begin a resumable upload'),
    needsRoom: 'database',
  },
  readUpload: bytes('HEAD', 'upload/resumable/{upload_id}', OfUpload, 'How far a resumable upload is'),
  appendUpload: {
    ...bytes('PATCH', 'upload/resumable/{upload_id}', OfUpload, 'Continue a resumable upload'),
    needsRoom: 'database',
  },
  overrideUpload: {
    ...bytes(
      'POST',
      'upload/resumable/{upload_id}',
      OfUpload,
      'PATCH, DELETE or HEAD named in X-HTTP-Method-Override',
    ),
    needsRoom: 'database',
  },
  deleteUpload: bytes('DELETE', 'upload/resumable/{upload_id}', OfUpload, 'Give up a resumable upload'),
  resumableSigned: {
    ...bytes('OPTIONS', 'upload/resumable/sign', InProject, 'What of TUS 1.0.0 is served'),
    ...open,
  },
  createSignedUpload: {
    needsRoom: 'database',
    ...bytes('POST', 'upload/resumable/sign', InProject, 'Begin one with a token in x-signature'),
    ...open,
  },
  readSignedUpload: {
    ...bytes('HEAD', 'upload/resumable/sign/{upload_id}', OfUpload, 'How far it is'),
    ...open,
  },
  appendSignedUpload: {
    needsRoom: 'database',
    ...bytes('PATCH', 'upload/resumable/sign/{upload_id}', OfUpload, 'Continue it'),
    ...open,
  },
  overrideSignedUpload: {
    needsRoom: 'database',
    ...bytes('POST', 'upload/resumable/sign/{upload_id}', OfUpload, 'The same by X-HTTP-Method-Override'),
    ...open,
  },
  deleteSignedUpload: {
    ...bytes('DELETE', 'upload/resumable/sign/{upload_id}', OfUpload, 'Give it up'),
    ...open,
  },
} as const satisfies Routes

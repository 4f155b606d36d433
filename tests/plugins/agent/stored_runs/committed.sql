BEGIN TRANSACTION;
CREATE TABLE spent (id TEXT PRIMARY KEY, expires REAL NOT NULL);
INSERT INTO "spent" VALUES('04a51260c306a959238f19f4bac096b5',4.94946834665447807323e+09);
CREATE TABLE toolstile_decisions (
    decision_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE toolstile_effects (
    key TEXT NOT NULL PRIMARY KEY,
    tool_name TEXT NOT NULL,
    params_hash TEXT NOT NULL,
    effect_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    expires_at INTEGER,
    message BLOB,
    value BLOB,
    excluded INTEGER NOT NULL DEFAULT 0,
    changes BLOB,
    unportable TEXT,
    reason TEXT,
    owner TEXT NOT NULL,
    lease REAL NOT NULL,
    secret INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "toolstile_effects" VALUES('call/s/call_0_1:charge:19d540c938473b3b93136ce1318bcfb0f859049d7c25e13023a5d5a43b7ee852','charge','19d540c938473b3b93136ce1318bcfb0f859049d7c25e13023a5d5a43b7ee852','284f2257b18e19b876a0e00000000000','s','call_0_1',1795868346641639,'done',NULL,X'',X'226368617267656420302D3022',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A2022302D30227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10581/299569',3026.570576971,0);
INSERT INTO "toolstile_effects" VALUES('call/s/call_0_2:charge:74e2aaae098ff7f116300594257f38e95268405e3693fa2c7a0c7a8d28bf5221','charge','74e2aaae098ff7f116300594257f38e95268405e3693fa2c7a0c7a8d28bf5221','284f2257b18e19b876a0e00000000001','s','call_0_2',1795868346642987,'done',NULL,X'',X'226368617267656420302D3122',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A2022302D31227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10581/299569',3026.571441151,0);
INSERT INTO "toolstile_effects" VALUES('call/s/call_0_3:charge:ed3bd3c6cd24d2a82182886ed4525d1f1ac75896d5c12922fcaab773844be5fd','charge','ed3bd3c6cd24d2a82182886ed4525d1f1ac75896d5c12922fcaab773844be5fd','284f2257b18e19b876a0e00000000002','s','call_0_3',1795868346643844,'done',NULL,X'',X'226368617267656420302D3222',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A2022302D32227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10581/299569',3026.572293653,0);
INSERT INTO "toolstile_effects" VALUES('call/s/call_1_1:refund:be8f6f8c3e76f9f44bef1d91f334d53dd6b0ba9853fdb4dba12cc4267a2500a4','refund','be8f6f8c3e76f9f44bef1d91f334d53dd6b0ba9853fdb4dba12cc4267a2500a4','cff3de410f7b75667c04970000000001','s','call_1_1',1795868347501623,'done',NULL,X'',X'22726566756E646564207222',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A202272227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10587/299658',3027.430598584,0);
CREATE TABLE toolstile_sessions (
    session_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    decision_id TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    changes TEXT NOT NULL,
    has_files INTEGER NOT NULL,
    decided_at REAL NOT NULL,
    PRIMARY KEY (session_id, number)
) WITHOUT ROWID;
INSERT INTO "toolstile_sessions" VALUES('s',1,'18ec34bf0f567ad84c285900a107cbdf',0,'{"slices": {"toolstile_hookspecs:RequestTurn": {"at": 0, "items": [{"text": "Charge all.", "at": "2026-11-28T12:19:06.614655Z", "user_id": null, "source": null}]}}, "records": [], "removed": [], "logs": {}}',0,1795868346.61641);
INSERT INTO "toolstile_sessions" VALUES('s',2,'18ec34bf0f75eb3fce04adcc7eb0ef1a',0,'{"slices": {"agent.Message": {"at": 0, "items": [{"role": "user", "text": "Charge all.", "calls": [], "answers": [], "dialect": "", "items": [], "request_id": "request-1"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834661907100672e+09);
INSERT INTO "toolstile_sessions" VALUES('s',3,'18ec34bf10a51970881ce94c9d966d44',0,'{"slices": {"agent.Message": {"at": 1, "items": [{"role": "assistant", "text": "", "calls": [{"id": "call_0_1", "name": "charge", "arguments": "{\"key\": \"0-0\"}"}, {"id": "call_0_2", "name": "charge", "arguments": "{\"key\": \"0-1\"}"}, {"id": "call_0_3", "name": "charge", "arguments": "{\"key\": \"0-2\"}"}, {"id": "call_0_4", "name": "count", "arguments": "{}"}], "answers": [], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834663695311541e+09);
INSERT INTO "toolstile_sessions" VALUES('s',4,'18ec34bf10abcbc64ffb5d17de754630',0,'{"slices": {}, "records": [], "removed": [], "logs": {"agent.ModelReplied": [{"run_id": "2f815b25eb414ea0a35be2b35ca265a0", "request_id": "request-1", "attempt": 1, "worker_id": null, "turn": 1, "stop_reason": "tool_use", "usage": {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 0}, "duration": 0.01773752600001899, "model": "script"}]}}',0,1.79586834663902211186e+09);
INSERT INTO "toolstile_sessions" VALUES('s',5,'18ec34bf115db4852c50a8a2fb2f1fde',0,'{"slices": {"run_driver.Charge": {"at": 0, "items": [{"key": "0-0"}]}, "toolstile.state.replay:AppliedEffect": {"at": 0, "items": [{"effect_id": "284f2257b18e19b876a0e00000000000"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834665009188651e+09);
INSERT INTO "toolstile_sessions" VALUES('s',6,'18ec34bf11777021b179859b9c92aaea',0,'{"slices": {"run_driver.Charge": {"at": 1, "items": [{"key": "0-1"}]}, "toolstile.state.replay:AppliedEffect": {"at": 1, "items": [{"effect_id": "284f2257b18e19b876a0e00000000001"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834665059709545e+09);
INSERT INTO "toolstile_sessions" VALUES('s',7,'18ec34bf117d3c8d5d49923ee6d56f60',0,'{"slices": {"run_driver.Charge": {"at": 2, "items": [{"key": "0-2"}]}, "toolstile.state.replay:AppliedEffect": {"at": 2, "items": [{"effect_id": "284f2257b18e19b876a0e00000000002"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834665094494814e+09);
INSERT INTO "toolstile_sessions" VALUES('s',8,'18ec34bf1189c87501bbf6db4bfd0a75',0,'{"slices": {"agent.Message": {"at": 2, "items": [{"role": "tool", "text": "", "calls": [], "answers": [{"call_id": "call_0_1", "name": "charge", "text": "charged 0-0", "is_error": false}, {"call_id": "call_0_2", "name": "charge", "text": "charged 0-1", "is_error": false}, {"call_id": "call_0_3", "name": "charge", "text": "charged 0-2", "is_error": false}, {"call_id": "call_0_4", "name": "count", "text": "3", "is_error": false}], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1795868346.65181);
INSERT INTO "toolstile_sessions" VALUES('s',9,'18ec34bf11933a23062f16c69ed37c3a',0,'{"slices": {"agent.Message": {"at": 3, "items": [{"role": "assistant", "text": "", "calls": [{"id": "call_1_1", "name": "refund", "arguments": "{\"key\": \"r\"}"}, {"id": "call_1_2", "name": "count", "arguments": "{}"}], "answers": [], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834665238595011e+09);
INSERT INTO "toolstile_sessions" VALUES('s',10,'18ec34bf119677422d7095ea79a27ea7',0,'{"slices": {}, "records": [], "removed": [], "logs": {"agent.ModelReplied": [{"run_id": "2f815b25eb414ea0a35be2b35ca265a0", "request_id": "request-1", "attempt": 1, "worker_id": null, "turn": 2, "stop_reason": "tool_use", "usage": {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 0}, "duration": 0.0003497580000839662, "model": "script"}]}}',0,1.79586834665255594247e+09);
INSERT INTO "toolstile_sessions" VALUES('s',11,'18ec34bf11bdf6f3fbcf474f6f2d8c32',0,'{"slices": {"agent.Message": {"at": 4, "items": [{"role": "tool", "text": "", "calls": [], "answers": [{"call_id": "call_1_2", "name": "count", "text": "3", "is_error": false}], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1795868346.65518);
INSERT INTO "toolstile_sessions" VALUES('s',12,'18ec34bf4457648fcad94e56633a32ec',0,'{"slices": {"run_driver.Charge": {"at": 3, "items": [{"key": "r"}]}, "toolstile.state.replay:AppliedEffect": {"at": 3, "items": [{"effect_id": "cff3de410f7b75667c04970000000001"}]}}, "records": [], "removed": [], "logs": {}}',0,1795868347.50509);
CREATE TABLE toolstile_sessions_about (
    identity TEXT NOT NULL, version TEXT NOT NULL
);
INSERT INTO "toolstile_sessions_about" VALUES('9c585025ecc84a41a2b579b2ca63a22f','1');
CREATE INDEX toolstile_effects_open ON toolstile_effects (created_at, key) WHERE state <> 'done';
COMMIT;

package isthmus.mqbridge;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.function.BiConsumer;
import java.util.function.Function;

/**
 * The fields of the MQMD, and the channel to reply to. A field at its zero (0, no text, no bytes) is not written; none
 * is ever null.
 */
public final class Header {
    private int version;
    private int report;
    private int msgType;
    private int expiry;
    private int feedback;
    private int encoding;
    private int codedCharSetID;
    private String format = "";
    private int priority;
    private int persistence;
    private byte[] msgID = {};
    private byte[] correlID = {};
    private int backoutCount;
    private String replyToQ = "";
    private String replyToQMgr = "";
    private String userIdentifier = "";
    private byte[] accountingToken = {};
    private String applIdentityData = "";
    private int putApplType;
    private String putApplName = "";
    private String putDate = "";
    private String putTime = "";
    private String applOriginData = "";
    private byte[] groupID = {};
    private int msgSeqNumber;
    private int offset;
    private int msgFlags;
    private int originalLength;
    private String replyToChannel = "";

    /** A field as the wire has it. */
    static final class Field<T> {
        final String name;
        final T zero;
        final Function<Header, T> get;
        final BiConsumer<Header, T> set;

        private Field(String name, T zero, Function<Header, T> get, BiConsumer<Header, T> set) {
            this.name = name;
            this.zero = zero;
            this.get = get;
            this.set = set;
        }

        boolean isZero(Header header) {
            return Objects.deepEquals(get.apply(header), zero);
        }
    }

    /** All fields, in the order in which they are written. */
    static final List<Field<?>> FIELDS = fields();

    private static List<Field<?>> fields() {
        List<Field<?>> all = new ArrayList<>();
        all.add(new Field<>("version", 0, Header::getVersion, Header::setVersion));
        all.add(new Field<>("report", 0, Header::getReport, Header::setReport));
        all.add(new Field<>("type", 0, Header::getMsgType, Header::setMsgType));
        all.add(new Field<>("exp", 0, Header::getExpiry, Header::setExpiry));
        all.add(new Field<>("feed", 0, Header::getFeedback, Header::setFeedback));
        all.add(new Field<>("enc", 0, Header::getEncoding, Header::setEncoding));
        all.add(new Field<>("charset", 0, Header::getCodedCharSetID, Header::setCodedCharSetID));
        all.add(new Field<>("format", "", Header::getFormat, Header::setFormat));
        all.add(new Field<>("priority", 0, Header::getPriority, Header::setPriority));
        all.add(new Field<>("persist", 0, Header::getPersistence, Header::setPersistence));
        all.add(new Field<>("msg_id", new byte[0], Header::getMsgID, Header::setMsgID));
        all.add(new Field<>("corr_id", new byte[0], Header::getCorrelID, Header::setCorrelID));
        all.add(new Field<>("backout", 0, Header::getBackoutCount, Header::setBackoutCount));
        all.add(new Field<>("rep_q", "", Header::getReplyToQ, Header::setReplyToQ));
        all.add(new Field<>("rep_qmgr", "", Header::getReplyToQMgr, Header::setReplyToQMgr));
        all.add(new Field<>("user_id", "", Header::getUserIdentifier, Header::setUserIdentifier));
        all.add(new Field<>("acct_token", new byte[0], Header::getAccountingToken, Header::setAccountingToken));
        all.add(new Field<>("appl_id", "", Header::getApplIdentityData, Header::setApplIdentityData));
        all.add(new Field<>("appl_type", 0, Header::getPutApplType, Header::setPutApplType));
        all.add(new Field<>("appl_name", "", Header::getPutApplName, Header::setPutApplName));
        all.add(new Field<>("date", "", Header::getPutDate, Header::setPutDate));
        all.add(new Field<>("time", "", Header::getPutTime, Header::setPutTime));
        all.add(new Field<>("appl_orig_data", "", Header::getApplOriginData, Header::setApplOriginData));
        all.add(new Field<>("grp_id", new byte[0], Header::getGroupID, Header::setGroupID));
        all.add(new Field<>("seq", 0, Header::getMsgSeqNumber, Header::setMsgSeqNumber));
        all.add(new Field<>("offset", 0, Header::getOffset, Header::setOffset));
        all.add(new Field<>("flags", 0, Header::getMsgFlags, Header::setMsgFlags));
        all.add(new Field<>("orig_length", 0, Header::getOriginalLength, Header::setOriginalLength));
        all.add(new Field<>("reply_to_channel", "", Header::getReplyToChannel, Header::setReplyToChannel));
        return Collections.unmodifiableList(all);
    }

    public int getVersion() {
        return version;
    }

    public void setVersion(int version) {
        this.version = version;
    }

    public int getReport() {
        return report;
    }

    public void setReport(int report) {
        this.report = report;
    }

    public int getMsgType() {
        return msgType;
    }

    public void setMsgType(int msgType) {
        this.msgType = msgType;
    }

    public int getExpiry() {
        return expiry;
    }

    public void setExpiry(int expiry) {
        this.expiry = expiry;
    }

    public int getFeedback() {
        return feedback;
    }

    public void setFeedback(int feedback) {
        this.feedback = feedback;
    }

    public int getEncoding() {
        return encoding;
    }

    public void setEncoding(int encoding) {
        this.encoding = encoding;
    }

    public int getCodedCharSetID() {
        return codedCharSetID;
    }

    public void setCodedCharSetID(int codedCharSetID) {
        this.codedCharSetID = codedCharSetID;
    }

    public String getFormat() {
        return format;
    }

    public void setFormat(String format) {
        this.format = format == null ? "" : format;
    }

    public int getPriority() {
        return priority;
    }

    public void setPriority(int priority) {
        this.priority = priority;
    }

    public int getPersistence() {
        return persistence;
    }

    public void setPersistence(int persistence) {
        this.persistence = persistence;
    }

    public byte[] getMsgID() {
        return msgID;
    }

    public void setMsgID(byte[] msgID) {
        this.msgID = msgID == null ? new byte[0] : msgID;
    }

    public byte[] getCorrelID() {
        return correlID;
    }

    public void setCorrelID(byte[] correlID) {
        this.correlID = correlID == null ? new byte[0] : correlID;
    }

    public int getBackoutCount() {
        return backoutCount;
    }

    public void setBackoutCount(int backoutCount) {
        this.backoutCount = backoutCount;
    }

    public String getReplyToQ() {
        return replyToQ;
    }

    public void setReplyToQ(String replyToQ) {
        this.replyToQ = replyToQ == null ? "" : replyToQ;
    }

    public String getReplyToQMgr() {
        return replyToQMgr;
    }

    public void setReplyToQMgr(String replyToQMgr) {
        this.replyToQMgr = replyToQMgr == null ? "" : replyToQMgr;
    }

    public String getUserIdentifier() {
        return userIdentifier;
    }

    public void setUserIdentifier(String userIdentifier) {
        this.userIdentifier = userIdentifier == null ? "" : userIdentifier;
    }

    public byte[] getAccountingToken() {
        return accountingToken;
    }

    public void setAccountingToken(byte[] accountingToken) {
        this.accountingToken = accountingToken == null ? new byte[0] : accountingToken;
    }

    public String getApplIdentityData() {
        return applIdentityData;
    }

    public void setApplIdentityData(String applIdentityData) {
        this.applIdentityData = applIdentityData == null ? "" : applIdentityData;
    }

    public int getPutApplType() {
        return putApplType;
    }

    public void setPutApplType(int putApplType) {
        this.putApplType = putApplType;
    }

    public String getPutApplName() {
        return putApplName;
    }

    public void setPutApplName(String putApplName) {
        this.putApplName = putApplName == null ? "" : putApplName;
    }

    public String getPutDate() {
        return putDate;
    }

    public void setPutDate(String putDate) {
        this.putDate = putDate == null ? "" : putDate;
    }

    public String getPutTime() {
        return putTime;
    }

    public void setPutTime(String putTime) {
        this.putTime = putTime == null ? "" : putTime;
    }

    public String getApplOriginData() {
        return applOriginData;
    }

    public void setApplOriginData(String applOriginData) {
        this.applOriginData = applOriginData == null ? "" : applOriginData;
    }

    public byte[] getGroupID() {
        return groupID;
    }

    public void setGroupID(byte[] groupID) {
        this.groupID = groupID == null ? new byte[0] : groupID;
    }

    public int getMsgSeqNumber() {
        return msgSeqNumber;
    }

    public void setMsgSeqNumber(int msgSeqNumber) {
        this.msgSeqNumber = msgSeqNumber;
    }

    public int getOffset() {
        return offset;
    }

    public void setOffset(int offset) {
        this.offset = offset;
    }

    public int getMsgFlags() {
        return msgFlags;
    }

    public void setMsgFlags(int msgFlags) {
        this.msgFlags = msgFlags;
    }

    public int getOriginalLength() {
        return originalLength;
    }

    public void setOriginalLength(int originalLength) {
        this.originalLength = originalLength;
    }

    public String getReplyToChannel() {
        return replyToChannel;
    }

    public void setReplyToChannel(String replyToChannel) {
        this.replyToChannel = replyToChannel == null ? "" : replyToChannel;
    }
}
